#include <mailgrad/optim/own_update.hpp>

#include <mailgrad/kernels/host/vector.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

/// Floats of a gradient that are summed before a call of the rule. A small tile lets the processor prefetch
/// the next one, a large one spreads the cost of the call. With 1024, blocks beyond the caches take half as
/// long again.
constexpr std::size_t tile = 256;

using state_list = std::array<float*, MAILGRAD_PLUGIN_MOST_STATES>;

void require_states(const own_update& rule, std::span<float* const> state) {
  if (rule.table == nullptr) throw std::invalid_argument("update: the rule has no table");
  if (state.size() != rule.table->states)
    throw shape_error(fmt::format("update: {} states for a rule of {}", state.size(), rule.table->states));
}

/// Calls the user's function for weights and states from `first` on.
void call(const own_update& rule, const float* weights, float* updated, const float* gradient,
          std::span<float* const> state, std::size_t first, std::size_t count,
          const mailgrad_preparation* preparation = nullptr) {
  state_list states{};
  for (std::size_t i = 0; i < state.size(); ++i) states[i] = state[i] + first;
  const mailgrad_rule_step step{weights,     updated,   gradient,           states.data(),
                                count,       rule.step, rule.learning_rate, rule.settings.data(),
                                preparation, nullptr};
  rule.table->update(&step);
}

/// Summed in the order given, as kernels/update.hpp does, so that the same formula gives the same bits.
void add_up(std::span<const scaled_gradient> gradients, float share, std::size_t first, float* sum,
            std::size_t n) {
  if (gradients.empty()) return static_cast<void>(std::fill_n(sum, n, 0.0F));
  const scaled_gradient& begin = gradients.front();
#pragma omp simd
  for (std::size_t k = 0; k < n; ++k) sum[k] = begin.scale * begin.values[first + k];
  for (const scaled_gradient& g : gradients.subspan(1)) {
#pragma omp simd
    for (std::size_t k = 0; k < n; ++k) sum[k] += g.scale * g.values[first + k];
  }
  if (share == 1) return;
#pragma omp simd
  for (std::size_t k = 0; k < n; ++k) sum[k] *= share;
}

void penalise(const weight_penalty& penalty, const float* weights, float* gradient, float* decayed,
              std::size_t n) {
#pragma omp simd
  for (std::size_t k = 0; k < n; ++k) {
    gradient[k] += penalty.l2 * weights[k];
    decayed[k] = weights[k] - penalty.decay * weights[k];
  }
}

/// Updates weights and states from `first` on; `work` begins there. A rule that prepares applies scale and
/// penalties in its own loop; for any other rule a pass over each tile applies them.
void run(const own_update& rule, const weight_penalty& penalty, const weight_update& work,
         std::span<float* const> state, std::size_t first) {
  const std::size_t count = work.weights.size();
  const bool prepares = rule.table->prepares != 0;
  if (work.gradients.size() == 1 && work.share == 1) {
    const scaled_gradient& g = work.gradients.front();
    const mailgrad_preparation whole{g.scale, penalty.l2, penalty.decay};
    const bool as_it_is = g.scale == 1 && penalty.none();
    if (as_it_is || prepares)
      return call(rule, work.weights.data(), work.updated.data(), g.values, state, first, count,
                  as_it_is ? nullptr : &whole);
  }
  const mailgrad_preparation rest{1, penalty.l2, penalty.decay};
  const bool penalised_here = !prepares && !penalty.none();
  std::array<float, tile> sum;
  std::array<float, tile> decayed;
  for (std::size_t done = 0; done < count; done += tile) {
    const std::size_t n = std::min(tile, count - done);
    const float* weights = work.weights.data() + done;
    add_up(work.gradients, work.share, done, sum.data(), n);
    if (penalised_here) {
      penalise(penalty, weights, sum.data(), decayed.data(), n);
      weights = decayed.data();
    }
    call(rule, weights, work.updated.data() + done, sum.data(), state, first + done, n,
         penalised_here || penalty.none() ? nullptr : &rest);
  }
}

/// Gathers scattered rows of a table into one tile, updates the tile and scatters it back, because a call of
/// the rule costs more than the update of a narrow row.
class rows_together {
public:
  rows_together(const row_update& work, std::span<float* const> state) : work_(work), state_(state) {
    for (std::size_t i = 0; i < state.size(); ++i) pointers_[i] = states_[i].data();
  }

  /// Updates `n` rows from the `begin`th on.
  void update(const own_update& rule, const weight_penalty& penalty, std::size_t begin, std::size_t n) {
    ask_for(begin + n, std::min(n, work_.rows.size() - begin - n));
    fetch(begin, n, work_.weights.data(), weights_);
    for (std::size_t i = 0; i < state_.size(); ++i) fetch(begin, n, state_[i], states_[i]);
    const std::span<float> all = std::span(weights_).first(n * work_.width);
    const scaled_gradient values{work_.values.data() + begin * work_.width, work_.scale};
    run(rule, penalty, {all, all, {&values, 1}}, std::span(pointers_).first(state_.size()), 0);
    put_back(begin, n, weights_, work_.weights.data());
    for (std::size_t i = 0; i < state_.size(); ++i) put_back(begin, n, states_[i], state_[i]);
  }

private:
  using tile_values = std::array<float, tile>;

  void fetch(std::size_t begin, std::size_t n, const float* table, tile_values& here) const {
    for (std::size_t j = 0; j < n; ++j)
      copy(table + work_.rows[begin + j] * work_.width, here.data() + j * work_.width);
  }
  void put_back(std::size_t begin, std::size_t n, const tile_values& here, float* table) const {
    for (std::size_t j = 0; j < n; ++j)
      copy(here.data() + j * work_.width, table + work_.rows[begin + j] * work_.width);
  }
  void copy(const float* from, float* to) const { // a row is too short to pay for a memcpy of variable length
    constexpr std::size_t line = simd::cache_line;
    std::size_t k = 0;
    for (; k + line <= work_.width; k += line) std::memcpy(to + k, from + k, line * sizeof(float));
    for (; k < work_.width; ++k) to[k] = from[k];
  }
  /// Prefetches the next rows, which mostly lie beyond the caches.
  void ask_for(std::size_t begin, std::size_t n) const {
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t k = 0; k < work_.width; k += simd::cache_line) {
        const std::size_t at = work_.rows[begin + j] * work_.width + k;
        simd::prefetch_to_write(work_.weights.data() + at);
        for (float* const s : state_) simd::prefetch_to_write(s + at);
      }
  }

  const row_update& work_;
  std::span<float* const> state_;
  state_list pointers_{};
  tile_values weights_;
  std::array<tile_values, MAILGRAD_PLUGIN_MOST_STATES> states_;
};

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
  if (work.width > 0 && work.width <= tile / 2) {
    rows_together rows(work, state);
    const std::size_t at_once = tile / work.width;
    for (std::size_t j = 0; j < work.rows.size(); j += at_once)
      rows.update(rule, penalty, j, std::min(at_once, work.rows.size() - j));
    return;
  }
  for (std::size_t j = 0; j < work.rows.size(); ++j) {
    const std::size_t first = work.rows[j] * work.width;
    const std::span<float> row = work.weights.subspan(first, work.width);
    const scaled_gradient values{work.values.data() + j * work.width, work.scale};
    run(rule, penalty, {row, row, {&values, 1}}, state, first);
  }
}

} // namespace mailgrad
