#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/kernels/gpu_body.hpp>
#include <mailgrad/kernels/host/vector.hpp>
#include <mailgrad/kernels/update.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad {
namespace {

/// The number of floats that are summed over all gradients at a time. It is so small that the processor
/// prefetches all gradients together. With a thousand, blocks larger than the caches take a third longer.
constexpr std::size_t summed_at_once = 128;

template <class Rule>
using state_of = std::array<float*, Rule::states>;

/// Applies the rule to n weights. gradient(k) is element k of the gradient. `weights` and `updated` are the
/// same memory or do not overlap, so iterations are independent.
template <class Rule, class Gradient, std::size_t... i>
void loop(const Rule& rule, const float* weights, float* updated, Gradient gradient,
          [[maybe_unused]] const state_of<Rule>& state, std::size_t n, std::index_sequence<i...>) {
#pragma omp simd
  for (std::size_t k = 0; k < n; ++k) {
    float w = weights[k];
    rule(w, gradient(k), state[i][k]...);
    updated[k] = w;
  }
}

template <class Rule, class Gradient>
void apply(const Rule& rule, const float* weights, float* updated, Gradient gradient,
           const state_of<Rule>& state, std::size_t n) {
  loop(rule, weights, updated, gradient, state, n, std::make_index_sequence<Rule::states>{});
}

/// Applies the rule with one gradient. A scale of 1 is left out, because the compiler would fuse that product
/// with the rule. The result would then round unlike a sum of several gradients.
template <class Rule>
void apply_one(const Rule& rule, const float* weights, float* updated, const scaled_gradient& g,
               const state_of<Rule>& state, std::size_t n) {
  if (g.scale == 1)
    return apply(
        rule, weights, updated, [&g](std::size_t k) { return g.values[k]; }, state, n);
  apply(
      rule, weights, updated, [&g](std::size_t k) { return g.scale * g.values[k]; }, state, n);
}

template <class Rule>
state_of<Rule> advanced(state_of<Rule> state, std::size_t by) {
  for (float*& s : state) s += by;
  return state;
}

void add_to_tile(const scaled_gradient& g, std::size_t first, std::size_t n, float* sum) {
#pragma omp simd
  for (std::size_t k = 0; k < n; ++k) sum[k] += g.scale * g.values[first + k];
}

/// Sums a tile of all gradients in the order given, and multiplies it by the share. The product is stored, so
/// that it rounds by itself.
template <class Rule>
void apply_mean(const Rule& rule, const weight_update& work, const state_of<Rule>& state) {
  std::array<float, summed_at_once> sum;
  const scaled_gradient& begin = work.gradients.front();
  for (std::size_t first = 0; first < work.weights.size(); first += summed_at_once) {
    const std::size_t n = std::min(summed_at_once, work.weights.size() - first);
#pragma omp simd
    for (std::size_t k = 0; k < n; ++k) sum[k] = begin.scale * begin.values[first + k];
    for (const scaled_gradient& g : work.gradients.subspan(1)) add_to_tile(g, first, n, sum.data());
#pragma omp simd
    for (std::size_t k = 0; k < n; ++k) sum[k] *= work.share;
    apply(
        rule, work.weights.data() + first, work.updated.data() + first, [&](std::size_t k) { return sum[k]; },
        advanced<Rule>(state, first), n);
  }
}

/// Sums a tile of all gradients but the last, in the order given. The update adds the last one and reads the
/// sum while it is in the L1 cache.
template <class Rule>
void apply_sum(const Rule& rule, const weight_update& work, const state_of<Rule>& state) {
  std::array<float, summed_at_once> sum;
  const scaled_gradient& begin = work.gradients.front();
  const scaled_gradient& last = work.gradients.back();
  for (std::size_t first = 0; first < work.weights.size(); first += summed_at_once) {
    const std::size_t n = std::min(summed_at_once, work.weights.size() - first);
#pragma omp simd
    for (std::size_t k = 0; k < n; ++k) sum[k] = begin.scale * begin.values[first + k];
    for (const scaled_gradient& g : work.gradients.subspan(1, work.gradients.size() - 2))
      add_to_tile(g, first, n, sum.data());
    apply(
        rule, work.weights.data() + first, work.updated.data() + first,
        [&](std::size_t k) { return sum[k] + last.scale * last.values[first + k]; },
        advanced<Rule>(state, first), n);
  }
}

template <class Rule>
void run(const Rule& rule, const weight_update& work, std::span<float* const> state) {
  state_of<Rule> pointers{};
  std::ranges::copy(state, pointers.begin());
  const float* const weights = work.weights.data();
  if (work.share != 1 && !work.gradients.empty())
    apply_mean(rule, work, pointers);
  else if (work.gradients.size() > 1)
    apply_sum(rule, work, pointers);
  else if (work.gradients.size() == 1)
    apply_one(rule, weights, work.updated.data(), work.gradients.front(), pointers, work.weights.size());
  else
    apply(
        rule, weights, work.updated.data(), [](std::size_t) { return 0.0F; }, pointers, work.weights.size());
}

/// Rows are prefetched this many rows ahead, because they lie scattered in tables larger than the caches.
constexpr std::size_t rows_ahead = 8;

template <class Rule>
void prefetch_row(const row_update& work, const state_of<Rule>& state, std::size_t row) {
  for (std::size_t i = 0; i < work.width; i += simd::cache_line) {
    simd::prefetch_to_write(work.weights.data() + row * work.width + i);
    for (float* const s : state) simd::prefetch_to_write(s + row * work.width + i);
  }
}

template <class Rule>
void run_rows(const Rule& rule, const row_update& work, std::span<float* const> state) {
  state_of<Rule> pointers{};
  std::ranges::copy(state, pointers.begin());
  for (std::size_t j = 0; j < work.rows.size(); ++j) {
    if (j + rows_ahead < work.rows.size()) prefetch_row<Rule>(work, pointers, work.rows[j + rows_ahead]);
    const std::size_t first = work.rows[j] * work.width;
    float* row = work.weights.data() + first;
    apply_one(rule, row, row, {work.values.data() + j * work.width, work.scale},
              advanced<Rule>(pointers, first), work.width);
  }
}

std::size_t states_of(const update_rule& rule) {
  return std::visit([]<class Rule>(const Rule&) { return Rule::states; }, rule);
}

void require_states(const update_rule& rule, std::span<float* const> state) {
  if (state.size() != states_of(rule))
    throw shape_error(fmt::format("update: {} states for a rule of {}", state.size(), states_of(rule)));
}

/// Apart from what calls it, so that the compiler inlines the rules into their loops, and rounds, as ever.
[[gnu::noinline]] void update_on_host(const update_rule& rule, const weight_penalty& penalty,
                                      const weight_update& work, std::span<float* const> state) {
  with_rule(rule, penalty, [&](const auto& r) { run(r, work, state); });
}

} // namespace

void require_fitting(const row_update& work) {
  const std::size_t count = work.width == 0 ? work.rows.size() : work.values.size() / work.width;
  if (count != work.rows.size() || work.values.size() != count * work.width)
    throw shape_error(fmt::format("update_rows: {} values for {} rows of {}", work.values.size(),
                                  work.rows.size(), work.width));
  const std::size_t height = work.width == 0 ? 0 : work.weights.size() / work.width;
  for (const std::uint32_t row : work.rows)
    if (row >= height) throw shape_error(fmt::format("update_rows: row {} of a table of {}", row, height));
}

void update(const stream& s, const update_rule& rule, const weight_penalty& penalty,
            const weight_update& work, std::span<float* const> state) {
  if (work.weights.size() != work.updated.size())
    throw shape_error("update", shape{work.weights.size()}, shape{work.updated.size()});
  require_states(rule, state);
  if (!on_gpu<update>(s, rule, penalty, work, state)) update_on_host(rule, penalty, work, state);
}

void update_rows(const stream& s, const update_rule& rule, const weight_penalty& penalty,
                 const row_update& work, std::span<float* const> state) {
  require_host(s, "update_rows");
  require_states(rule, state);
  require_fitting(work);
  with_rule(rule, penalty, [&](const auto& r) { run_rows(r, work, state); });
}

std::size_t row_update_bytes(device_kind where, std::span<const row_gradient> gradients) noexcept {
  std::size_t bytes = 0;
  for (const row_gradient& g : gradients)
    if (where == device_kind::cuda) bytes += cuda::row_order_bytes(g.rows.size());
  return bytes;
}

void update_summed_rows(const stream& s, const update_rule& rule, const weight_penalty& penalty,
                        const summed_row_update& work, std::span<float* const> state) {
  if (std::holds_alternative<host_stream>(s))
    throw device_error(world_errc::no_such_device,
                       "update_summed_rows: the host takes rows that are summed before");
  require_states(rule, state);
  const auto height = static_cast<std::size_t>(std::int64_t{work.row_end} - work.row_begin);
  if (work.row_begin < 0 || work.row_end < work.row_begin || work.weights.size() != height * work.width)
    throw shape_error(fmt::format("update_summed_rows: {} weights for rows {} to {} of {}",
                                  work.weights.size(), work.row_begin, work.row_end, work.width));
  on_gpu<update_summed_rows>(s, rule, penalty, work, state);
}

} // namespace mailgrad
