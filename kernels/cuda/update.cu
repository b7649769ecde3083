#include <mailgrad/kernels/cuda/row_order.hpp>
#include <mailgrad/kernels/update.hpp>
#include <mailgrad/tensor/error.hpp>

#include <utility>

namespace mailgrad::cuda {
namespace {

template <class Rule>
struct state_list {
  float* items[Rule::states + 1]; // one more, since a rule may have none
};

constexpr std::size_t most_by_value = 32;

/// The gradients of an update in the order of their sum, as an argument of the kernel.
struct gradients_by_value {
  const float* values[most_by_value];
  float scales[most_by_value];
  std::size_t count;
  float share; ///< factor on their sum
};

/// A list that is too long for an argument lies in memory of the GPU.
struct gradients_on_gpu {
  const float* const* values;
  const float* scales;
  std::size_t count;
  float share;
};

template <class Rule>
struct weights_of_thread {
  float_pack weights, gradient, state[Rule::states + 1];
};

/// A product that the compiler does not fuse with what it is added to.
__device__ float rounded_product(float a, float b) {
#ifdef __CUDACC__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/// The scaled sum of all gradients in the order given, times their share. Each is loaded once, and a few are
/// under way together.
template <class Gradients, class Elements>
__device__ float_pack sum_of(const Gradients& gradients, const Elements& elements) {
  constexpr unsigned together = 4;
  float_pack sum{};
  for (std::size_t first = 0; first < gradients.count; first += together) {
    float_pack values[together] = {};
#pragma unroll
    for (unsigned i = 0; i < together; ++i)
      if (first + i < gradients.count) values[i] = elements.load(gradients.values[first + i]);
#pragma unroll
    for (unsigned i = 0; i < together; ++i) {
      const float scale = first + i < gradients.count ? gradients.scales[first + i] : 0;
#pragma unroll
      for (unsigned k = 0; k < float_pack::size; ++k) sum.v[k] += scale * values[i].v[k];
    }
  }
  if (gradients.share == 1) return sum;
#pragma unroll
  for (unsigned k = 0; k < float_pack::size; ++k) sum.v[k] = rounded_product(gradients.share, sum.v[k]);
  return sum;
}

template <unsigned size, class Rule, class Weights, std::size_t... i>
__device__ void step(const Rule& rule, Weights& x, std::index_sequence<i...>) {
#pragma unroll
  for (unsigned k = 0; k < size; ++k) rule(x.weights.v[k], x.gradient.v[k], x.state[i].v[k]...);
}

template <class Rule, class Gradients>
__global__ void update_kernel(Rule rule, const float* weights, float* updated, Gradients gradients,
                              state_list<Rule> state, element_range range) {
  for_packs<1>(
      range,
      [&](auto elements) {
        weights_of_thread<Rule> x{};
        x.weights = elements.load(weights);
#pragma unroll
        for (std::size_t i = 0; i != Rule::states; ++i) x.state[i] = elements.load(state.items[i]);
        x.gradient = sum_of(gradients, elements);
        return x;
      },
      [&](auto& loaded) {
        step<float_pack::size>(rule, loaded[0], std::make_index_sequence<Rule::states>{});
      },
      [&](auto elements, const weights_of_thread<Rule>& x) {
        elements.store(updated, x.weights);
#pragma unroll
        for (std::size_t i = 0; i != Rule::states; ++i) elements.store(state.items[i], x.state[i]);
      });
}

/// Writes a part of a long list to memory of the GPU. A copy from the host would have to wait, or the host's
/// list to stay.
__global__ void list_kernel(gradients_by_value part, const float** values, float* scales) {
  if (threadIdx.x >= part.count) return;
  values[threadIdx.x] = part.values[threadIdx.x];
  scales[threadIdx.x] = part.scales[threadIdx.x];
}

gradients_by_value by_value(std::span<const scaled_gradient> gradients, float share = 1) {
  gradients_by_value list{};
  list.share = share;
  for (const scaled_gradient& g : gradients) {
    list.values[list.count] = g.values;
    list.scales[list.count++] = g.scale;
  }
  return list;
}

gradients_on_gpu on_gpu(const cuda_stream& s, std::span<const scaled_gradient> gradients, float share) {
  constexpr std::size_t bytes_of_one = sizeof(const float*) + sizeof(float);
  if (gradients.size() > s.scratch_bytes / bytes_of_one)
    throw shape_error("update: " + std::to_string(gradients.size()) + " gradients at once; a GPU takes " +
                      std::to_string(s.scratch_bytes / bytes_of_one));
  auto* const values = static_cast<const float**>(s.scratch);
  auto* const scales = reinterpret_cast<float*>(values + gradients.size());
  for (std::size_t first = 0; first < gradients.size(); first += most_by_value)
    launch(s, "update", 1, most_by_value, 0, list_kernel,
           by_value(gradients.subspan(first, std::min(most_by_value, gradients.size() - first))),
           values + first, scales + first);
  return {values, scales, gradients.size(), share};
}

bool all_aligned(const weight_update& work, std::span<float* const> state) {
  bool aligned = are_packs(work.weights.data(), work.updated.data());
  for (const scaled_gradient& g : work.gradients) aligned = aligned && are_packs(g.values);
  for (const float* x : state) aligned = aligned && are_packs(x);
  return aligned;
}

template <class Rule, class Gradients>
void run_with(const cuda_stream& s, const Rule& rule, const Gradients& gradients, const weight_update& work,
              std::span<float* const> state) {
  const std::size_t n = work.weights.size();
  state_list<Rule> pointers{};
  std::copy(state.begin(), state.end(), pointers.items);
  launch(s, "update", blocks_of_packs(n, 1), threads_per_block, 0, update_kernel<Rule, Gradients>, rule,
         work.weights.data(), work.updated.data(), gradients, pointers,
         element_range{n, all_aligned(work, state)});
}

template <class Rule>
void run(const cuda_stream& s, const Rule& rule, const weight_update& work, std::span<float* const> state) {
  if (work.gradients.size() <= most_by_value)
    run_with(s, rule, by_value(work.gradients, work.share), work, state);
  else
    run_with(s, rule, on_gpu(s, work.gradients, work.share), work, state);
}

void update(const cuda_stream& s, const update_rule& rule, const weight_penalty& penalty,
            const weight_update& work, std::span<float* const> state) {
  if (work.weights.empty()) return;
  with_rule(rule, penalty, [&](const auto& r) { run(s, r, work, state); });
}

struct ordered_gradient {
  ordered_keys order;
  const float* values;
  float scale;
};

/// The gradients of an update. The first is an argument of the kernel, since as a rule there is no other.
struct gradient_list {
  ordered_gradient first;
  const ordered_gradient* others; ///< in memory of the GPU
  unsigned count;
  __device__ ordered_gradient get(unsigned i) const { return i == 0 ? first : others[i - 1]; }
};

constexpr std::size_t most_in_part = 32;

/// A part of the others on their way to memory of the GPU, as an argument.
struct gradient_part {
  ordered_gradient items[most_in_part];
  unsigned count;
};

__global__ void list_rows_kernel(gradient_part part, ordered_gradient* to) {
  if (threadIdx.x < part.count) to[threadIdx.x] = part.items[threadIdx.x];
}

struct table_part {
  float* weights;
  std::size_t width;
  std::uint32_t row_begin, row_end;
};

template <class Rule, unsigned size>
struct moved_row {
  moved_floats<size> weights, gradient, state[Rule::states + 1];
};

/// The row that a warp updates: that of entry `at` of gradient `own`, if no entry before names it, there or
/// in an earlier gradient.
struct chosen_row {
  std::uint32_t row = 0;
  bool chosen = false;
  __device__ chosen_row(const gradient_list& gradients, unsigned own, std::uint32_t at,
                        const table_part& table) {
    const ordered_keys order = gradients.get(own).order;
    if (at >= order.n) return;
    row = row_of(order.keys[at]);
    chosen = row >= table.row_begin && row < table.row_end && position_of(order.keys[at]) < order.end() &&
             (at == 0 || row_of(order.keys[at - 1]) != row);
    for (unsigned i = 0; i < own && chosen; ++i) {
      const ordered_keys earlier = gradients.get(i).order;
      chosen = earlier.run_of(row, earlier.end()).size() == 0;
    }
  }
};

/// Block (x, y) has some entries of gradient `own`, one for each warp, and 32 columns or packs of them.
template <class Rule, unsigned size>
__global__ void update_rows_kernel(Rule rule, table_part table, state_list<Rule> state,
                                   gradient_list gradients, unsigned own) {
  const unsigned warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  const std::size_t column = (std::size_t{blockIdx.y} * warp_size + lane) * size;
  const bool works = column < table.width;
  const chosen_row mine(gradients, own, blockIdx.x * warps_of_runs + warp, table);
  moved_row<Rule, size> x{};
  for (unsigned i = own; i < gradients.count; ++i) {
    const ordered_gradient g = gradients.get(i);
    key_range run{0, 0};
    if (mine.chosen) run = g.order.run_of(mine.row, g.order.end());
    const moved_floats<size> sum = sum_runs<size>(g.order.keys, run, g.values + column, table.width, works);
#pragma unroll
    for (unsigned k = 0; k < size; ++k) x.gradient.v[k] += g.scale * sum.v[k];
    __syncthreads();
  }
  if (!mine.chosen || !works) return;
  const std::size_t place = (mine.row - table.row_begin) * table.width + column;
  x.weights = load_floats<size>(table.weights + place);
#pragma unroll
  for (std::size_t i = 0; i != Rule::states; ++i) x.state[i] = load_floats<size>(state.items[i] + place);
  step<size>(rule, x, std::make_index_sequence<Rule::states>{});
  store_floats<size>(table.weights + place, x.weights);
#pragma unroll
  for (std::size_t i = 0; i != Rule::states; ++i) store_floats<size>(state.items[i] + place, x.state[i]);
}

/// Orders the rows of each gradient, and lists them for the kernel.
gradient_list ordered(const cuda_stream& s, const summed_row_update& work) {
  gradient_list all{};
  auto* scratch = static_cast<std::byte*>(work.scratch);
  auto* const others = static_cast<ordered_gradient*>(s.scratch);
  gradient_part part{};
  const auto send = [&] {
    if (part.count > 0)
      launch(s, "update_rows", 1, most_in_part, 0, list_rows_kernel, part,
             others + all.count - 1 - part.count);
    part.count = 0;
  };
  for (const row_gradient& g : work.gradients) {
    if (g.rows.empty()) continue;
    const auto n = static_cast<std::uint32_t>(g.rows.size());
    const ordered_gradient made{{order_rows(s, g.rows.data(), n, scratch), n}, g.values, g.scale};
    scratch += row_order_bytes(n);
    if (all.count++ == 0) {
      all.first = made;
      continue;
    }
    part.items[part.count++] = made;
    if (part.count == most_in_part) send();
  }
  send();
  all.others = others;
  return all;
}

template <class Rule>
void run(const cuda_stream& s, const Rule& rule, const summed_row_update& work,
         std::span<float* const> state) {
  state_list<Rule> pointers{};
  std::copy(state.begin(), state.end(), pointers.items);
  const table_part table{work.weights.data(), work.width, static_cast<std::uint32_t>(work.row_begin),
                         static_cast<std::uint32_t>(work.row_end)};
  bool packs = work.width % float_pack::size == 0 && are_packs(table.weights);
  for (const row_gradient& g : work.gradients) packs = packs && are_packs(g.values);
  for (const float* x : state) packs = packs && are_packs(x);
  const std::size_t size = packs ? float_pack::size : 1, columns = warp_size * size;
  const auto across = static_cast<unsigned>((work.width + columns - 1) / columns);
  const gradient_list gradients = ordered(s, work);
  unsigned own = 0;
  for (const row_gradient& g : work.gradients) {
    if (g.rows.empty()) continue;
    const dim3 grid(static_cast<unsigned>((g.rows.size() + warps_of_runs - 1) / warps_of_runs), across);
    launch(s, "update_rows", grid, threads_per_block, shared_bytes_of_runs(size),
           packs ? update_rows_kernel<Rule, float_pack::size> : update_rows_kernel<Rule, 1>, rule, table,
           pointers, gradients, own++);
  }
}

void require_fitting(const cuda_stream& s, const summed_row_update& work) {
  if (work.gradients.size() > s.scratch_bytes / sizeof(ordered_gradient))
    throw shape_error("update_summed_rows: " + std::to_string(work.gradients.size()) +
                      " gradients at once; a GPU takes " +
                      std::to_string(s.scratch_bytes / sizeof(ordered_gradient)));
  for (const row_gradient& g : work.gradients)
    if (g.rows.size() > s.most_in_32_bits)
      throw shape_error("update_summed_rows: a GPU takes fewer than 2^31 rows, not " +
                        std::to_string(g.rows.size()));
}

void update_summed_rows(const cuda_stream& s, const update_rule& rule, const weight_penalty& penalty,
                        const summed_row_update& work, std::span<float* const> state) {
  if (work.weights.empty()) return;
  require_fitting(s, work);
  with_rule(rule, penalty, [&](const auto& r) { run(s, r, work, state); });
}

} // namespace

MAILGRAD_GPU_BODY(update)
MAILGRAD_GPU_BODY(update_summed_rows)

} // namespace mailgrad::cuda
