#include <mailgrad/kernels/cuda/row_order.hpp>
#include <mailgrad/kernels/update.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace mailgrad::cuda {

namespace {

/// The rows of one gradient, in order.
struct ordered_gradient {
  ordered_keys order;
  const float* values;
  float scale;
};

/// The gradients of an update. The first is an argument of the kernel, since as a rule there is no other.
struct gradient_list {
  ordered_gradient first;
  const ordered_gradient* others; ///< in memory of the card
  unsigned count;

  __device__ ordered_gradient get(unsigned i) const { return i == 0 ? first : others[i - 1]; }
};

constexpr std::size_t most_in_part = 32;

/// A part of the others on their way to memory of the card, as an argument.
struct gradient_part {
  ordered_gradient items[most_in_part];
  unsigned count;
};

__global__ void list_rows_kernel(gradient_part part, ordered_gradient* to) {
  if (threadIdx.x < part.count) to[threadIdx.x] = part.items[threadIdx.x];
}

/// The part of a table that is updated.
struct table_part {
  float* weights;
  std::size_t width;
  std::uint32_t row_begin, row_end;
};

template <class Rule, unsigned size>
struct moved_row {
  moved_floats<size> weights, gradient, state[Rule::states + 1];
};

template <class Rule, unsigned size, std::size_t... i>
__device__ void step(const Rule& rule, moved_row<Rule, size>& x, std::index_sequence<i...>) {
#pragma unroll
  for (unsigned k = 0; k < size; ++k) rule(x.weights.v[k], x.gradient.v[k], x.state[i].v[k]...);
}

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
  step(rule, x, std::make_index_sequence<Rule::states>{});
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
                      " gradients at once; a card takes " +
                      std::to_string(s.scratch_bytes / sizeof(ordered_gradient)));
  for (const row_gradient& g : work.gradients)
    if (g.rows.size() > s.most_in_32_bits)
      throw shape_error("update_summed_rows: a card takes fewer than 2^31 rows, not " +
                        std::to_string(g.rows.size()));
}

} // namespace

void update_summed_rows(const cuda_stream& s, const update_rule& rule, const weight_penalty& penalty,
                        const summed_row_update& work, std::span<float* const> state) {
  if (work.weights.empty()) return;
  require_fitting(s, work);
  std::visit(
      [&]<class Rule>(const Rule& r) {
        if (penalty.none())
          run(s, r, work, state);
        else
          run(s, penalised_update<Rule>{r, penalty}, work, state);
      },
      rule);
}

} // namespace mailgrad::cuda
