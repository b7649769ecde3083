#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/functors/distance_terms.hpp>
#include <mailgrad/kernels/vectors.hpp>

#include <array>
#include <utility>

namespace mailgrad::cuda {
namespace {

template <class F>
struct mapped_arrays {
  const float* reads[F::reads + 1]; // one more, since F may read none
  float* writes[F::writes];
};

template <class F>
struct mapped_packs {
  float_pack reads[F::reads + 1];
  float_pack writes[F::writes];
};

/// Packs of a thread; a function of many arrays has enough under way with one.
template <class F>
inline constexpr unsigned packs_of_map = F::reads + F::writes > 3 ? 1 : 2;

template <class F, std::size_t... i, std::size_t... o>
__device__ void call_map(const F& f, mapped_packs<F>& x, std::index_sequence<i...>,
                         std::index_sequence<o...>) {
#pragma unroll
  for (unsigned k = 0; k < float_pack::size; ++k) f(x.reads[i].v[k]..., x.writes[o].v[k]...);
}

/// What a function overwrites unread is not loaded: the compiler sees that nothing uses it.
template <class F>
__global__ void map_kernel(F f, mapped_arrays<F> arrays, element_range range) {
  for_packs<packs_of_map<F>>(
      range,
      [&](auto elements) {
        mapped_packs<F> x{};
#pragma unroll
        for (std::size_t i = 0; i != F::reads; ++i) x.reads[i] = elements.load(arrays.reads[i]);
#pragma unroll
        for (std::size_t i = 0; i != F::writes; ++i) x.writes[i] = elements.load(arrays.writes[i]);
        return x;
      },
      [&](auto& loaded) {
#pragma unroll
        for (auto& x : loaded)
          call_map(f, x, std::make_index_sequence<F::reads>{}, std::make_index_sequence<F::writes>{});
      },
      [&](auto elements, const mapped_packs<F>& x) {
#pragma unroll
        for (std::size_t i = 0; i != F::writes; ++i) elements.store(arrays.writes[i], x.writes[i]);
      });
}

/// Calls f(reads[0][k]..., writes[0][k]...) for each k below n. An array that is written may also be read.
///
/// Shapes  reads: F::reads arrays of float32[n]; writes: F::writes of them.
template <class F>
void map(const cuda_stream& s, const char* name, const F& f, std::span<const float* const> reads,
         std::span<float* const> writes, std::size_t n) {
  if (n == 0) return;
  mapped_arrays<F> arrays{};
  std::copy(reads.begin(), reads.end(), arrays.reads);
  std::copy(writes.begin(), writes.end(), arrays.writes);
  bool aligned = true;
  for (const float* x : reads) aligned = aligned && are_packs(x);
  for (const float* x : writes) aligned = aligned && are_packs(x);
  launch(s, name, blocks_of_packs(n, packs_of_map<F>), threads_per_block, 0, map_kernel<F>, f, arrays,
         element_range{n, aligned});
}

struct same_value {
  static constexpr std::size_t reads = 0, writes = 1;
  float value;
  MAILGRAD_HOST_DEVICE void operator()(float& x) const { x = value; }
};

struct scaled_addition {
  static constexpr std::size_t reads = 1, writes = 1;
  float scale;
  MAILGRAD_HOST_DEVICE void operator()(float x, float& sum) const { sum += scale * x; }
};

struct scaling {
  static constexpr std::size_t reads = 0, writes = 1;
  float scale;
  MAILGRAD_HOST_DEVICE void operator()(float& x) const { x *= scale; }
};

void fill(const cuda_stream& s, float value, std::span<float> x) {
  map(s, "fill", same_value{value}, {}, std::array{x.data()}, x.size());
}

void begin_sum(const cuda_stream& s, float scale, std::span<const float> x, std::span<float> sum) {
  map(s, "begin_sum", scaled_copy{scale}, std::array{x.data()}, std::array{sum.data()}, x.size());
}

void add_to_sum(const cuda_stream& s, float scale, std::span<const float> x, std::span<float> sum) {
  map(s, "add_to_sum", scaled_addition{scale}, std::array{x.data()}, std::array{sum.data()}, x.size());
}

void scale_in_place(const cuda_stream& s, float scale, std::span<float> x) {
  map(s, "scale_in_place", scaling{scale}, {}, std::array{x.data()}, x.size());
}

void map_weights(const cuda_stream& s, const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n) {
  std::visit([&](const auto& function) { map(s, "map_weights", function, reads, writes, n); }, f);
}

constexpr unsigned packs_together = 4;

/// The sum of term(a, b) over the packs of this thread: every gridDim.x-th group of them, in a fixed order.
template <class Term>
__device__ double sum_of_thread(Term term, const float* a, const float* b, const element_range& range) {
  const std::size_t stride = grid_threads() * float_pack::size;
  double sum = 0;
  for (std::size_t first = grid_thread() * float_pack::size; first < range.n;
       first += packs_together * stride) {
    operand_packs x[packs_together] = {};
#pragma unroll
    for (unsigned i = 0; i < packs_together; ++i)
      range.visit(first + i * stride, [&](auto elements) { x[i] = {elements.load(a), elements.load(b)}; });
#pragma unroll
    for (unsigned i = 0; i < packs_together; ++i)
#pragma unroll
      for (unsigned k = 0; k < float_pack::size; ++k) sum += term(x[i].a.v[k], x[i].b.v[k]);
  }
  return sum;
}

template <class Term>
__global__ void partial_sum_kernel(Term term, const float* a, const float* b, element_range range,
                                   double* sums) {
  const double sum = block_sum(sum_of_thread(term, a, b, range), shared_memory<double>());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// Elements that a pack lacks are zeros, whose terms are zero.
template <class Term>
void run(const cuda_stream& s, const char* name, Term term, std::span<const float> a,
         std::span<const float> b, double* result) {
  constexpr unsigned most_blocks = multiprocessors * 4; // each thread has eight loads under way
  constexpr std::size_t bytes = block_sum_bytes<double>;
  const std::size_t n = a.size();
  const unsigned blocks = std::clamp(blocks_of_packs(n, packs_together), 1U, most_blocks);
  auto* const sums = static_cast<double*>(s.scratch);
  launch(s, name, blocks, threads_per_block, bytes, partial_sum_kernel<Term>, term, a.data(), b.data(),
         element_range{n, are_packs(a.data(), b.data())}, sums);
  launch(s, name, 1, threads_per_block, bytes, total_kernel<double, double>, sums, blocks, 1.0, result);
}

void sum_pairs(const cuda_stream& s, pair_sum what, std::span<const float> a, std::span<const float> b,
               double* result) {
  if (what == pair_sum::inner_product)
    run(s, "inner_product", functors::product{}, a, b, result);
  else
    run(s, "squared_distance", functors::square_of_difference{}, a, b, result);
}

} // namespace

MAILGRAD_GPU_BODY(fill)
MAILGRAD_GPU_BODY(begin_sum)
MAILGRAD_GPU_BODY(add_to_sum)
MAILGRAD_GPU_BODY(scale_in_place)
MAILGRAD_GPU_BODY(map_weights)
MAILGRAD_GPU_BODY(sum_pairs)

} // namespace mailgrad::cuda
