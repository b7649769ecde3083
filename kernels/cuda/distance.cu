#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/distance.hpp>
#include <mailgrad/kernels/functors/distance_terms.hpp>

#include <algorithm>

namespace mailgrad::cuda {

namespace {

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

__global__ void total_of_sums_kernel(const double* sums, unsigned count, double* result) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) sum += sums[i];
  sum = block_sum(sum, shared_memory<double>());
  if (threadIdx.x == 0) *result = sum;
}

/// Elements that a pack lacks are zeros, whose terms are zero.
template <class Term>
void run(const cuda_stream& s, const char* name, Term term, std::span<const float> a,
         std::span<const float> b, double* result) {
  constexpr unsigned most_blocks = multiprocessors * 4; // each thread has eight loads under way
  constexpr std::size_t room = block_sum_bytes<double>;
  const std::size_t n = a.size();
  const unsigned blocks = std::clamp(blocks_of_packs(n, packs_together), 1U, most_blocks);
  auto* const sums = static_cast<double*>(s.scratch);
  launch(s, name, blocks, threads_per_block, room, partial_sum_kernel<Term>, term, a.data(), b.data(),
         element_range{n, are_packs(a.data(), b.data())}, sums);
  launch(s, name, 1, threads_per_block, room, total_of_sums_kernel, sums, blocks, result);
}

} // namespace

void inner_product(const cuda_stream& s, std::span<const float> a, std::span<const float> b, double* result) {
  run(s, "inner_product", functors::product{}, a, b, result);
}

void squared_distance(const cuda_stream& s, std::span<const float> a, std::span<const float> b,
                      double* result) {
  run(s, "squared_distance", functors::square_of_difference{}, a, b, result);
}

} // namespace mailgrad::cuda
