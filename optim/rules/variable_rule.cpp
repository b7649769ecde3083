#include <mailgrad/optim/clip.hpp>
#include <mailgrad/optim/rules/muon.hpp>
#include <mailgrad/optim/rules/shampoo.hpp>
#include <mailgrad/optim/rules/variable_rule.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace mailgrad {

namespace {

double length(std::span<const float> x) { return std::sqrt(sum_of_squares(host_stream{}, x)); }

std::size_t largest_of(std::span<const shard_variable> variables) {
  std::size_t largest = 0;
  for (const shard_variable& v : variables) largest = std::max(largest, v.dims.size());
  return largest;
}

/// LARS: momentum with a learning rate for each variable, in proportion to the length of its weights over
/// that of its gradient. For large batches, as many workers under sync make them.
///
///     lambda = eta |w| / (|g| + beta |w|)
///     v = m v + rate lambda (g + beta w)
///     w = w - v
///
/// with eta = trust, m = momentum, beta = weight decay.
/// Source  You, Gitman & Ginsburg, "Large batch training of convolutional networks", 2017, arXiv:1708.03888,
///         equation 6 and Algorithm 1. Differs: lambda = 1 if |w| or |g| is 0, as in the authors' program,
///         because a bias that begins at 0 would stay there.
/// Shapes  state "velocity": float32[shard].
class lars_rule final : public variable_rule {
public:
  lars_rule(const lars_options& options, std::size_t shard_size, std::span<const shard_variable> variables)
      : options_(options), velocity_(shard_size * sizeof(float)) {
    for (const shard_variable& v : variables) offsets_.push_back(v.offset);
  }

  void update(const variable_step& work) override {
    const double of_weights = length(work.weights);
    const double of_gradient = length(work.gradient);
    double lambda = 1;
    if (of_weights > 0 && of_gradient > 0)
      lambda = options_.trust * of_weights / (of_gradient + work.decay * of_weights);
    const auto rate = static_cast<float>(work.rate * lambda);
    const auto momentum = static_cast<float>(options_.momentum);
    const auto decay = static_cast<float>(work.decay);
    float* const w = work.weights.data();
    float* const v = velocity_.as<float>().data() + offsets_[work.variable];
    const float* const g = work.gradient.data();
#pragma omp simd
    for (std::size_t i = 0; i < work.weights.size(); ++i) {
      v[i] = momentum * v[i] + rate * (g[i] + decay * w[i]);
      w[i] -= v[i];
    }
  }
  std::vector<optimizer_state> state() override { return {{"velocity", velocity_.as<float>()}}; }

private:
  lars_options options_;
  std::vector<std::size_t> offsets_; ///< by variable
  block velocity_;
};

/// LAMB: Adam with a learning rate for each variable, in proportion to the length of its weights over that of
/// its step. For large batches of transformers, where LARS does poorly.
///
///     m = beta1 m + (1 - beta1) g,           m_hat = m / (1 - beta1^t)
///     v = beta2 v + (1 - beta2) g^2,         v_hat = v / (1 - beta2^t)
///     r = m_hat / (sqrt(v_hat) + epsilon) + lambda w
///     w = w - rate (|w| / |r|) r
///
/// with lambda = weight decay.
/// Source  You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020,
///         arXiv:1904.00962, Algorithm 2 with phi(z) = z. Differs: the ratio is 1 if |w| or |r| is 0, as in
///         the authors' program.
/// Shapes  states "mean", "mean_square": float32[shard].
class lamb_rule final : public variable_rule {
public:
  lamb_rule(const lamb_options& options, std::size_t shard_size, std::span<const shard_variable> variables)
      : options_(options), mean_(shard_size * sizeof(float)), mean_square_(shard_size * sizeof(float)),
        step_(largest_of(variables) * sizeof(float)) {
    for (const shard_variable& v : variables) offsets_.push_back(v.offset);
  }

  void update(const variable_step& work) override {
    const auto t = static_cast<double>(work.step);
    const auto beta1 = static_cast<float>(options_.beta1), rest1 = static_cast<float>(1 - options_.beta1);
    const auto beta2 = static_cast<float>(options_.beta2), rest2 = static_cast<float>(1 - options_.beta2);
    const auto bias1 = static_cast<float>(1 / (1 - std::pow(options_.beta1, t)));
    const auto root_bias2 = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, t)));
    const auto epsilon = static_cast<float>(options_.epsilon);
    const auto decay = static_cast<float>(work.decay);
    const std::size_t count = work.weights.size();
    const std::span<float> step = step_.as<float>().first(count);
    float* const r = step.data();
    float* const m = mean_.as<float>().data() + offsets_[work.variable];
    float* const v = mean_square_.as<float>().data() + offsets_[work.variable];
    const float* const w = work.weights.data();
    const float* const g = work.gradient.data();
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      m[i] = beta1 * m[i] + rest1 * g[i];
      v[i] = beta2 * v[i] + rest2 * g[i] * g[i];
      r[i] = bias1 * m[i] / (std::sqrt(v[i]) * root_bias2 + epsilon) + decay * w[i];
    }
    const double of_weights = sum_of_squares(host_stream{}, work.weights);
    const double of_step = sum_of_squares(host_stream{}, step);
    const double ratio = of_weights > 0 && of_step > 0 ? std::sqrt(of_weights / of_step) : 1;
    add_to_sum(host_stream{}, static_cast<float>(-work.rate * ratio), step, work.weights);
  }
  std::vector<optimizer_state> state() override {
    return {{"mean", mean_.as<float>()}, {"mean_square", mean_square_.as<float>()}};
  }

private:
  lamb_options options_;
  std::vector<std::size_t> offsets_; ///< by variable
  block mean_;
  block mean_square_;
  block step_; ///< r of the largest variable
};

/// A user's rule that asks for whole variables (plugin.h). It finds the weights decayed.
/// Shapes  states "state 0" and so on: float32[shard].
class custom_variable_rule final : public variable_rule {
public:
  custom_variable_rule(const custom_rule& rule, std::size_t shard_size,
                       std::span<const shard_variable> variables)
      : rule_(rule) {
    for (const shard_variable& v : variables) places_.push_back({v, {v.dims.begin(), v.dims.end()}});
    for (const place& p : places_)
      told_.push_back({p.variable.name.c_str(), p.extents.size(), p.extents.data(), p.variable.offset});
    for (std::uint32_t i = 0; i < rule_.table->states; ++i) states_.emplace_back(shard_size * sizeof(float));
  }

  void update(const variable_step& work) override {
    const mailgrad_variable& told = told_[work.variable];
    std::array<float*, MAILGRAD_PLUGIN_MOST_STATES> states{};
    for (std::size_t i = 0; i < states_.size(); ++i) states[i] = states_[i].as<float>().data() + told.offset;
    if (work.decay != 0)
      scale_in_place(host_stream{}, static_cast<float>(1 - work.rate * work.decay), work.weights);
    const mailgrad_rule_step step{
        work.weights.data(), work.weights.data(), work.gradient.data(),  states.data(), work.weights.size(),
        work.step,           work.rate,           rule_.settings.data(), nullptr,       &told};
    rule_.table->update(&step);
  }
  std::vector<optimizer_state> state() override {
    std::vector<optimizer_state> all;
    for (std::size_t i = 0; i < states_.size(); ++i)
      all.push_back({custom_state_names[i], states_[i].as<float>()});
    return all;
  }

private:
  /// A variable with what `told` points to.
  struct place {
    shard_variable variable;
    std::vector<std::size_t> extents;
  };

  custom_rule rule_;
  std::vector<place> places_;
  std::vector<mailgrad_variable> told_; ///< by variable
  std::vector<block> states_;
};

using rule_pointer = std::unique_ptr<variable_rule>;
using variable_list = std::span<const shard_variable>;

rule_pointer make_rule(const auto&, std::size_t, variable_list) {
  throw std::invalid_argument("optimizer: this rule looks at single weights");
}
rule_pointer make_rule(const lars_options& o, std::size_t size, variable_list v) {
  return std::make_unique<lars_rule>(o, size, v);
}
rule_pointer make_rule(const lamb_options& o, std::size_t size, variable_list v) {
  return std::make_unique<lamb_rule>(o, size, v);
}
rule_pointer make_rule(const custom_rule& o, std::size_t size, variable_list v) {
  return std::make_unique<custom_variable_rule>(o, size, v);
}

/// Sums gradients and hands the rule one variable after the other.
class variable_optimizer final : public optimizer {
public:
  variable_optimizer(const optimizer_options& options, std::size_t size,
                     std::vector<shard_variable> variables)
      : optimizer(options, size), variables_(std::move(variables)),
        rule_(std::visit([&](const auto& o) { return make_rule(o, size, variables_); }, options.rule)),
        sum_(largest_of(variables_) * sizeof(float)) {}

  std::vector<optimizer_state> state() override { return rule_->state(); }
  void keep(archive& a, device_queue&) override {
    for (const optimizer_state& s : rule_->state()) a.floats("state " + std::string(s.name), s.values);
  }
  bool divides() const noexcept override { return false; }
  void prepare(update_number, double) override {}

  void update(const stream& s, const dense_update& work) override {
    require_host(s, "optimizer update");
    require_range(work.first, work.weights.size(), work.step);
    if (work.weights.size() != work.updated.size())
      throw shape_error("update", shape{work.weights.size()}, shape{work.updated.size()});
    const std::size_t end = work.first + work.weights.size();
    const auto begin = first_behind(work.first);
    for (auto v = begin; v != variables_.end() && v->offset < end; ++v) require_whole(*v, end);
    if (work.weights.data() != work.updated.data()) std::ranges::copy(work.weights, work.updated.begin());
    for (auto v = begin; v != variables_.end() && v->offset < end; ++v) update(s, work, *v);
  }

  void update_rows(const stream& s, const sparse_update& work) override {
    require_host(s, "optimizer update");
    require_range(work.first, work.weights.size(), work.step);
    const row_list touched = rows_.distinct(work);
    rule_->update_rows({terms_of(work.step, work.rate),
                        {work.weights, work.width, touched.rows, touched.values, work.scale},
                        work.first,
                        options_.l2});
  }

private:
  using place = std::vector<shard_variable>::const_iterator;

  step_terms terms_of(update_number step, double rate) const {
    const double factor = rate * mailgrad::learning_rate(options_.schedule, 1, step.of_weights);
    return {factor * base_learning_rate(options_), factor, base_weight_decay(options_), step.of_state};
  }

  /// The first variable at `first` or behind it. Also checks that `first` cuts none.
  place first_behind(std::size_t first) const {
    const auto found = std::ranges::lower_bound(variables_, first, {}, &shard_variable::offset);
    if (found != variables_.begin()) require_whole(*(found - 1), first);
    return found;
  }

  void require_whole(const shard_variable& v, std::size_t end) const {
    if (v.offset + v.dims.size() > end)
      throw shape_error(fmt::format("optimizer '{}': a range ends at weight {}, within variable '{}'", name(),
                                    end, v.name));
  }

  void update(const stream& s, const dense_update& work, const shard_variable& v) {
    const std::size_t first = v.offset - work.first;
    const std::span<float> weights = work.updated.subspan(first, v.dims.size());
    rule_->update({terms_of(work.step, work.rate), static_cast<std::size_t>(&v - variables_.data()), weights,
                   gradient(s, work, first, weights)});
  }

  /// A single gradient is read where it lies, if nothing changes it.
  std::span<const float> gradient(const stream& s, const dense_update& work, std::size_t first,
                                  std::span<const float> weights) {
    const auto part = [&](const scaled_gradient& g) { return std::span(g.values + first, weights.size()); };
    if (work.gradients.size() == 1 && work.gradients[0].scale == 1 && work.share == 1 && options_.l2 == 0)
      return part(work.gradients[0]);
    const std::span<float> sum = sum_.as<float>().first(weights.size());
    if (work.gradients.empty()) fill(s, 0, sum);
    for (std::size_t i = 0; i < work.gradients.size(); ++i) {
      const scaled_gradient& g = work.gradients[i];
      i == 0 ? begin_sum(s, g.scale, part(g), sum) : add_to_sum(s, g.scale, part(g), sum);
    }
    if (work.share != 1) scale_in_place(s, work.share, sum);
    if (options_.l2 != 0) add_to_sum(s, static_cast<float>(options_.l2), weights, sum);
    return sum;
  }

  std::vector<shard_variable> variables_; ///< ascending
  std::unique_ptr<variable_rule> rule_;
  block sum_; ///< of gradients, for the largest variable
  row_sum rows_;
};

} // namespace

void variable_rule::update_rows(const rows_step&) {
  throw std::invalid_argument(
      "optimizer: a gradient in rows, for a rule that needs those of whole variables");
}

std::unique_ptr<optimizer> make_variable_optimizer(const optimizer_options& options, std::size_t shard_size,
                                                   device_queue& at, std::vector<shard_variable> variables) {
  if (is_on_gpu(at))
    throw device_error(world_errc::wrong_place,
                       fmt::format("rule '{}' looks at whole variables, on the host alone", name(options)));
  if (variables.empty())
    throw std::invalid_argument(
        fmt::format("optimizer '{}' looks at whole variables, and is told of none", name(options)));
  std::ranges::sort(variables, {}, &shard_variable::offset);
  for (const shard_variable& v : variables)
    if (v.offset > shard_size || v.dims.size() > shard_size - v.offset)
      throw shape_error(fmt::format("optimizer: variable '{}' leaves a shard of {}", v.name, shard_size));
  return std::make_unique<variable_optimizer>(options, shard_size, std::move(variables));
}

} // namespace mailgrad
