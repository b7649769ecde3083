#include <mailgrad/optim/own_update.hpp>

#include <mailgrad/kernels/no_cuda.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

/// Floats of a sum of gradients in progress: so few that the processor fetches the next ahead, so many that a call
/// costs little. 1024 take half as long again on blocks beyond the caches.
constexpr std::size_t tile = 256;

using state_list = std::array<float*, MAILGRAD_PLUGIN_MOST_STATES>;

void require_states(const own_update& rule, std::span<float* const> state) {
  if (rule.table == nullptr) throw std::invalid_argument("update: the rule has no table");
  if (state.size() != rule.table->states)
    throw shape_error("update: " + std::to_string(state.size()) + " states for a rule of " +
                      std::to_string(rule.table->states));
}

/// The rule itself, on weights from `first` on.
void call(const own_update& rule, const float* weights, float* updated, const float* gradient,
          std::span<float* const> state, std::size_t first, std::size_t count) {
  state_list states{};
  for (std::size_t i = 0; i < state.size(); ++i) states[i] = state[i] + first;
  const mailgrad_rule_step step{weights, updated,   gradient,           states.data(),
                                count,   rule.step, rule.learning_rate, rule.settings.data()};
  rule.table->update(&step);
}

/// Summed in the order given, as kernels/update.hpp does, so that the same formula gives the same bits.
void add_up(std::span<const scaled_gradient> gradients, std::size_t first, std::span<float> sum) {
  if (gradients.size() == 1) {
    const float* values = gradients.front().values + first;
    const float scale = gradients.front().scale;
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] = scale * values[k];
    return;
  }
  std::ranges::fill(sum, 0.0F);
  for (const scaled_gradient& g : gradients)
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += g.scale * g.values[first + k];
}

/// Weights and states from `first` on; gradients and `updated` begin there.
void run(const own_update& rule, const weight_penalty& penalty, const weight_update& work,
         std::span<float* const> state, std::size_t first) {
  const std::size_t count = work.weights.size();
  const bool as_it_is = work.gradients.size() == 1 && work.gradients.front().scale == 1 && penalty.none();
  if (as_it_is)
    return call(rule, work.weights.data(), work.updated.data(), work.gradients.front().values, state, first,
                count);
  std::array<float, tile> sum;
  std::array<float, tile> decayed;
  for (std::size_t done = 0; done < count; done += tile) {
    const std::size_t n = std::min(tile, count - done);
    const float* weights = work.weights.data() + done;
    add_up(work.gradients, done, std::span(sum).first(n));
    if (!penalty.none()) {
      for (std::size_t k = 0; k < n; ++k) {
        sum[k] += penalty.l2 * weights[k];
        decayed[k] = weights[k] - penalty.decay * weights[k];
      }
      weights = decayed.data();
    }
    call(rule, weights, work.updated.data() + done, sum.data(), state, first + done, n);
  }
}

} // namespace

void update(const stream& s, const own_update& rule, const weight_penalty& penalty, const weight_update& work,
            std::span<float* const> state) {
  require_host(s, "update");
  if (work.weights.size() != work.updated.size())
    throw shape_error("update", shape{work.weights.size()}, shape{work.updated.size()});
  require_states(rule, state);
  run(rule, penalty, work, state, 0);
}

void update_rows(const stream& s, const own_update& rule, const weight_penalty& penalty,
                 const row_update& work, std::span<float* const> state) {
  require_host(s, "update_rows");
  require_states(rule, state);
  require_fitting(work);
  for (std::size_t j = 0; j < work.rows.size(); ++j) {
    const std::size_t first = work.rows[j] * work.width;
    const std::span<float> row = work.weights.subspan(first, work.width);
    const scaled_gradient values{work.values.data() + j * work.width, work.scale};
    run(rule, penalty, {row, row, {&values, 1}}, state, first);
  }
}

} // namespace mailgrad
