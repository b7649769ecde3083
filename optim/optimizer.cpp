#include <mailgrad/kernels/host/vector.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/optim/kept_memory.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/optim/rules/variable_rule.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <cstring>
#include <type_traits>
#include <utility>

namespace mailgrad {

namespace {

/// Floats of a gradient that are summed before a call of the rule. A small tile lets the processor prefetch
/// the next one, a large one spreads the cost of the call. With 1024, blocks beyond the caches take half as
/// long again.
constexpr std::size_t tile = 256;
using state_list = std::array<float*, MAILGRAD_PLUGIN_MOST_STATES>;

void require_states(const custom_update& rule, std::span<float* const> state) {
  if (rule.table == nullptr) throw std::invalid_argument("update: the rule has no table");
  if (state.size() != rule.table->states)
    throw shape_error(fmt::format("update: {} states for a rule of {}", state.size(), rule.table->states));
}

void call(const custom_update& rule, const float* weights, float* updated, const float* gradient,
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
void run(const custom_update& rule, const weight_penalty& penalty, const weight_update& work,
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

  void update(const custom_update& rule, const weight_penalty& penalty, std::size_t begin, std::size_t n) {
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

/// Names of a rule's states, in the order its functor takes them.
std::vector<std::string_view> state_names(const sgd_options&) { return {}; }
std::vector<std::string_view> state_names(const momentum_options&) { return {"velocity"}; }
std::vector<std::string_view> state_names(const nesterov_options&) { return {"velocity"}; }
std::vector<std::string_view> state_names(const adagrad_options&) { return {"sum_of_squares"}; }
std::vector<std::string_view> state_names(const rmsprop_options&) { return {"mean_square"}; }
std::vector<std::string_view> state_names(const adam_options&) { return {"mean", "mean_square"}; }
std::vector<std::string_view> state_names(const custom_rule& o) {
  return {custom_state_names.begin(), custom_state_names.begin() + o.table->states};
}
std::vector<std::string_view> state_names(const delayed_nesterov_options&) { return {"momentum", "sum"}; }

template <class Update>
Update from_doubles(auto... numbers) {
  return {static_cast<float>(numbers)...};
}

// The functor of one step, from the options of a rule.

update_rule rule_of(const sgd_options&, double rate, std::uint64_t) { return from_doubles<sgd_update>(rate); }
update_rule rule_of(const momentum_options& o, double rate, std::uint64_t) {
  return from_doubles<momentum_update>(rate, o.momentum);
}
update_rule rule_of(const nesterov_options& o, double rate, std::uint64_t) {
  return from_doubles<nesterov_update>(rate, o.momentum);
}
update_rule rule_of(const adagrad_options& o, double rate, std::uint64_t) {
  return from_doubles<adagrad_update>(rate, o.epsilon);
}
update_rule rule_of(const rmsprop_options& o, double rate, std::uint64_t) {
  return from_doubles<rmsprop_update>(rate, o.alpha, 1 - o.alpha, o.epsilon);
}
update_rule rule_of(const adam_options& o, double rate, std::uint64_t step) {
  return adam_step(o, rate, step);
}

update_rule rule_of(const delayed_nesterov_options& o, double rate, std::uint64_t step) {
  const auto period = static_cast<double>(o.period);
  const bool last = step % o.period == 0;
  return from_doubles<delayed_nesterov_update>(rate, last ? o.momentum : 1, last ? 1 / period : 0,
                                               (last ? 1 - o.early * period + o.early : o.early) * o.momentum,
                                               1 / period, last ? 0 : 1);
}

custom_update rule_of(const custom_rule& o, double rate, std::uint64_t step) {
  return {o.table, o.settings, rate, step};
}
/// One class serves every rule: its options choose the functor of a step and the number of blocks of state.
template <class Options>
class rule_optimizer final : public optimizer {
public:
  rule_optimizer(const optimizer_options& options, std::size_t size, device_queue& at)
      : optimizer(options, size), where_(at.where()), names_(state_names(std::get<Options>(options_.rule))) {
    if (on_gpu() && is_custom)
      throw device_error(world_errc::wrong_place,
                         fmt::format("rule '{}' is a user's, which runs on the host", name()));
    for (std::size_t i = 0; i < names_.size(); ++i) {
      states_[i] = naming_memory([&] { return fmt::format("the state of rule '{}'", name()); },
                                 [&] { return at.allocate(size * sizeof(float)); });
      if (const auto* adagrad = std::get_if<adagrad_options>(&options.rule);
          adagrad && adagrad->initial_sum > 0)
        fill(where_, static_cast<float>(adagrad->initial_sum), state_of(i));
    }
  }

  std::vector<optimizer_state> state() override {
    std::vector<optimizer_state> all;
    for (std::size_t i = 0; i < names_.size(); ++i) all.push_back({names_[i], state_of(i)});
    return all;
  }

  void keep(archive& a, device_queue& at) override {
    for (std::size_t i = 0; i < names_.size(); ++i)
      keep_floats(a, "state " + std::string(names_[i]), states_[i], at);
  }

  void update(const stream& s, const dense_update& work) override {
    require_place(s);
    require_range(work.first, work.weights.size(), work.step);
    prepare(work.step, work.rate);
    const state_list pointers = states_from(work.first);
    mailgrad::update(s, rule_, penalty_, {work.weights, work.updated, work.gradients, work.share},
                     std::span(pointers).first(names_.size()));
  }

  bool divides() const noexcept override { return !is_custom; }

  /// The powers and roots of a step cost more than the update of a small range, and one step has many ranges.
  void prepare(update_number step, double scale) override {
    if (step == prepared_ && scale == prepared_scale_) return;
    const double rate = scale * learning_rate(step.of_weights);
    rule_ = rule_of(std::get<Options>(options_.rule), rate, step.of_state);
    penalty_ = {static_cast<float>(options_.l2), static_cast<float>(rate * base_weight_decay(options_))};
    prepared_ = step;
    prepared_scale_ = scale;
  }

  void update_rows(const stream& s, const sparse_update& work) override {
    require_place(s);
    require_range(work.first, work.weights.size(), work.step);
    prepare(work.step, work.rate);
    const state_list pointers = states_from(work.first);
    const auto states = std::span(pointers).first(names_.size());
    if constexpr (!is_custom)
      if (on_gpu())
        return update_summed_rows(
            s, rule_, penalty_,
            {work.weights, work.width, work.row_begin, work.row_end, work.gradients, work.scratch}, states);
    const bool sums_repeats = !names_.empty() || !penalty_.none() || is_custom;
    const row_list touched = sums_repeats ? rows_.distinct(work) : rows_.as_they_come(work);
    mailgrad::update_rows(s, rule_, penalty_,
                          {work.weights, work.width, touched.rows, touched.values, work.scale}, states);
  }

private:
  static constexpr bool is_custom = std::is_same_v<Options, custom_rule>;

  bool on_gpu() const noexcept { return std::holds_alternative<cuda_stream>(where_); }
  std::span<float> state_of(std::size_t i) { return states_[i].template on<float>(where_).first(size_); }

  void require_place(const stream& s) const {
    if (!on_gpu()) return require_host(s, "optimizer update");
    const auto* const asked = std::get_if<cuda_stream>(&s);
    const auto& own = std::get<cuda_stream>(where_);
    if (!asked || asked->device != own.device)
      throw device_error(world_errc::wrong_place,
                         fmt::format("optimizer update: the state lies on {}",
                                     to_string(device{device_kind::cuda, own.device})));
  }

  state_list states_from(std::size_t first) {
    state_list pointers{};
    for (std::size_t i = 0; i < names_.size(); ++i) pointers[i] = state_of(i).data() + first;
    return pointers;
  }

  stream where_; ///< of the device queue whose kernels reach the state
  std::vector<std::string_view> names_;
  std::array<memory, MAILGRAD_PLUGIN_MOST_STATES> states_;
  row_sum rows_;
  update_number prepared_{0}; ///< the step for which `rule_` and `penalty_` were made
  double prepared_scale_ = 1; ///< the factor on the learning rate of that step
  decltype(rule_of(std::declval<const Options&>(), 0, 0)) rule_;
  weight_penalty penalty_;
};

void require_fitting(const sparse_update& work) {
  if (work.width > 0 && work.values.size() / work.width < work.rows.size())
    throw shape_error(fmt::format("update_rows: {} values for {} rows of {}", work.values.size(),
                                  work.rows.size(), work.width));
  const std::int64_t rows = std::int64_t{work.row_end} - work.row_begin;
  const auto height = static_cast<std::size_t>(rows);
  const std::size_t held = work.width == 0 ? height : work.weights.size() / work.width;
  if (rows < 0 || held != height || work.weights.size() != height * work.width)
    throw shape_error(fmt::format("update_rows: {} weights for rows {} to {} of {}", work.weights.size(),
                                  work.row_begin, work.row_end, work.width));
}

} // namespace

void update(const stream& s, const custom_update& rule, const weight_penalty& penalty,
            const weight_update& work, std::span<float* const> state) {
  require_host(s, "update");
  if (work.weights.size() != work.updated.size())
    throw shape_error("update", shape{work.weights.size()}, shape{work.updated.size()});
  require_states(rule, state);
  run(rule, penalty, work, state, 0);
}

void update_rows(const stream& s, const custom_update& rule, const weight_penalty& penalty,
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

void optimizer::require_range(std::size_t first, std::size_t count, update_number step) const {
  if (step.of_weights == 0 || step.of_state == 0)
    throw std::invalid_argument("optimizer: steps count from 1");
  if (first > size_ || count > size_ - first)
    throw shape_error(
        fmt::format("optimizer: weights {} to {} of a shard of {}", first, first + count, size_));
}

std::unique_ptr<optimizer> make_optimizer(const optimizer_options& options, std::size_t shard_size,
                                          device_queue& at, std::vector<shard_variable> variables) {
  require_valid(options);
  if (sees_whole_variables(options))
    return make_variable_optimizer(options, shard_size, at, std::move(variables));
  return std::visit(
      [&]<class Options>(const Options&) -> std::unique_ptr<optimizer> {
        if constexpr (requires { Options::whole_variables; })
          return nullptr; // made above
        else
          return std::make_unique<rule_optimizer<Options>>(options, shard_size, at);
      },
      options.rule);
}

row_list row_sum::of_shard(const sparse_update& work, bool sums_repeats) {
  require_fitting(work);
  rows_.clear();
  values_.clear();
  if (sums_repeats)
    place_.resize(std::max(place_.size(), static_cast<std::size_t>(work.row_end - work.row_begin)));
  for (std::size_t j = 0; j < work.rows.size() && work.rows[j] >= 0; ++j) {
    if (work.rows[j] < work.row_begin || work.rows[j] >= work.row_end) continue;
    const auto row = static_cast<std::uint32_t>(work.rows[j] - work.row_begin);
    const auto values = work.values.subspan(j * work.width, work.width);
    if (sums_repeats && place_[row] != 0) {
      float* sum = values_.data() + (place_[row] - 1) * work.width;
      for (std::size_t c = 0; c < work.width; ++c) sum[c] += values[c];
      continue;
    }
    rows_.push_back(row);
    values_.insert(values_.end(), values.begin(), values.end());
    if (sums_repeats) place_[row] = static_cast<std::uint32_t>(rows_.size());
  }
  if (sums_repeats)
    for (const std::uint32_t row : rows_) place_[row] = 0;
  return {rows_, values_};
}

} // namespace mailgrad
