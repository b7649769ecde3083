#include <mailgrad/optim/optimizer_options.hpp>

#include <mailgrad/options/settings.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

#include <array>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace mailgrad {

namespace {

/// Of a matrix for which Shampoo keeps another one: 16 GiB.
constexpr std::uint64_t most_side = 1 << 16;

/// Whether a rule is one of Mailgrad's, which parse_optimizer() knows by name.
template <class Rule>
constexpr bool built_in = !std::is_same_v<Rule, own_rule>;

/// The names of all built-in rules.
template <class... Rules>
constexpr auto names_of(const std::variant<Rules...>*) {
  std::array<std::string_view, (std::size_t{built_in<Rules>} + ...)> all;
  std::size_t count = 0;
  const auto add = [&]<class Rule>(const Rule*) {
    if constexpr (built_in<Rule>) all[count++] = Rule::name;
  };
  (add(static_cast<const Rules*>(nullptr)), ...);
  return all;
}

constexpr auto rule_names = names_of(static_cast<decltype(optimizer_options::rule)*>(nullptr));

// What each rule reads, with the range of each value.

void read(settings&, sgd_options&) {}
void read(settings& s, momentum_options& o) { o.momentum = s.take_number("momentum", o.momentum, -1, 1); }
void read(settings& s, nesterov_options& o) { o.momentum = s.take_number("momentum", o.momentum, 0, 1); }
void read(settings& s, adagrad_options& o) {
  o.epsilon = s.take_number("epsilon", o.epsilon, 0, unlimited);
  o.initial_sum = s.take_number("initial_sum", o.initial_sum, 0, unlimited);
}
void read(settings& s, rmsprop_options& o) {
  o.alpha = s.take_number("alpha", o.alpha, 0, 1);
  o.epsilon = s.take_number("epsilon", o.epsilon, 0, unlimited);
}
void read(settings& s, adam_options& o) {
  o.beta1 = s.take_number("beta1", o.beta1, 0, 1);
  o.beta2 = s.take_number("beta2", o.beta2, 0, 1);
  o.epsilon = s.take_number("epsilon", o.epsilon, 0, unlimited);
}

void read(settings& s, delayed_nesterov_options& o) {
  o.momentum = s.take_number("momentum", o.momentum, 0, 1);
  o.period = s.take_whole("period", o.period);
  o.early = s.take_number("early", o.early, 0, unlimited);
}
void read(settings& s, lars_options& o) {
  o.momentum = s.take_number("momentum", o.momentum, 0, 1);
  o.trust = s.take_number("trust", o.trust, 0, unlimited);
}
void read(settings& s, lamb_options& o) {
  o.beta1 = s.take_number("beta1", o.beta1, 0, 1);
  o.beta2 = s.take_number("beta2", o.beta2, 0, 1);
  o.epsilon = s.take_number("epsilon", o.epsilon, 0, unlimited);
}
void read(settings& s, muon_options& o) {
  o.momentum = s.take_number("momentum", o.momentum, 0, 1);
  o.nesterov = s.take_yes("nesterov", o.nesterov);
  o.adamw = s.take_text("adamw", o.adamw);
  o.adamw_rate = s.take_number("adamw_rate", o.adamw_rate, 0, unlimited);
  o.beta1 = s.take_number("beta1", o.beta1, 0, 1);
  o.beta2 = s.take_number("beta2", o.beta2, 0, 1);
  o.epsilon = s.take_number("epsilon", o.epsilon, 0, unlimited);
}
void read(settings& s, shampoo_options& o) {
  o.epsilon = s.take_number("epsilon", o.epsilon, 0, unlimited);
  o.every = s.take_whole("every", o.every, 1);
  o.largest = s.take_whole("largest", o.largest, 0, most_side);
}
void read(settings& s, own_rule& o) {
  for (std::size_t i = 0; i < o.table->setting_count; ++i) {
    const mailgrad_rule_setting& known = o.table->settings[i];
    o.settings[i] = s.take_number(known.name, o.settings[i], known.least, known.below);
  }
}

template <class Rule>
bool is_named(std::string_view wanted) {
  if constexpr (built_in<Rule>)
    return Rule::name == wanted;
  else
    return false;
}

/// Sets `rule` to the alternative of that name; false if there is none.
template <class... Rules>
bool choose(std::variant<Rules...>& rule, std::string_view wanted) {
  return ((is_named<Rules>(wanted) && (rule = Rules{}, true)) || ...);
}

void require(bool right, std::string_view option, double value, std::string_view range) {
  if (!right)
    throw std::invalid_argument(fmt::format("optimizer: {} must be {}, not {:f}", option, range, value));
}

void require_factor(double x, std::string_view option) {
  require(x >= 0 && x < 1, option, x, "at least 0 and less than 1");
}

void require_small(double x, std::string_view option) {
  require(x >= 0 && x <= std::numeric_limits<float>::max(), option, x,
          "a number of at least 0 that a float32 can hold");
}

void require_valid_rule(const sgd_options&) {}
void require_valid_rule(const momentum_options& o) { // momentum-compensation may make it negative
  require(o.momentum > -1 && o.momentum < 1, "momentum", o.momentum, "more than -1 and less than 1");
}
void require_valid_rule(const nesterov_options& o) { require_factor(o.momentum, "momentum"); }
void require_valid_rule(const adagrad_options& o) {
  require_small(o.epsilon, "epsilon");
  require_small(o.initial_sum, "initial_sum");
}
void require_valid_rule(const rmsprop_options& o) {
  require_factor(o.alpha, "alpha");
  require_small(o.epsilon, "epsilon");
}
void require_valid_rule(const adam_options& o) {
  require_factor(o.beta1, "beta1");
  require_factor(o.beta2, "beta2");
  require_small(o.epsilon, "epsilon");
}
void require_valid_rule(const delayed_nesterov_options& o) {
  const auto period = static_cast<double>(o.period);
  require_factor(o.momentum, "momentum");
  require(o.period > 0, "period", period, "at least 1");
  require(o.early >= 0 && o.early * period <= 1, "early", o.early, "at least 0 and at most 1 / period");
}
void require_valid_rule(const lars_options& o) {
  require_factor(o.momentum, "momentum");
  require_small(o.trust, "trust");
}
void require_valid_rule(const lamb_options& o) {
  require_factor(o.beta1, "beta1");
  require_factor(o.beta2, "beta2");
  require_small(o.epsilon, "epsilon");
}
void require_valid_rule(const muon_options& o) {
  require_factor(o.momentum, "momentum");
  require_small(o.adamw_rate, "adamw_rate");
  require_factor(o.beta1, "beta1");
  require_factor(o.beta2, "beta2");
  require_small(o.epsilon, "epsilon");
}
void require_valid_rule(const shampoo_options& o) {
  const auto every = static_cast<double>(o.every);
  const auto largest = static_cast<double>(o.largest);
  require(o.epsilon > 0 && o.epsilon <= std::numeric_limits<float>::max(), "epsilon", o.epsilon,
          "more than 0 and a number that a float32 can hold");
  require(o.every > 0, "every", every, "at least 1");
  require(o.largest <= most_side, "largest", largest, "at most 65536");
}
void require_valid_rule(const own_rule& o) { require_valid(o); }

template <class Rule>
double default_learning_rate(const Rule&) {
  return Rule::default_learning_rate;
}
double default_learning_rate(const own_rule& o) { return o.table ? o.table->learning_rate : 0; }

template <class Rule>
double default_weight_decay(const Rule&) {
  if constexpr (requires { Rule::default_weight_decay; })
    return Rule::default_weight_decay;
  else
    return 0;
}

template <class Rule>
bool sees_whole(const Rule&) {
  return requires { Rule::whole_variables; };
}
bool sees_whole(const own_rule& o) { return o.table && o.table->whole_variables != 0; }

template <class Rule>
std::string_view name_of(const Rule&) {
  return Rule::name;
}
std::string_view name_of(const own_rule& o) { return o.label; }

} // namespace

double base_learning_rate(const optimizer_options& options) {
  return options.learning_rate.value_or(
      std::visit([](const auto& rule) { return default_learning_rate(rule); }, options.rule));
}

double base_weight_decay(const optimizer_options& options) {
  return options.weight_decay.value_or(
      std::visit([](const auto& rule) { return default_weight_decay(rule); }, options.rule));
}

bool sees_whole_variables(const optimizer_options& options) {
  return std::visit([](const auto& rule) { return sees_whole(rule); }, options.rule);
}

std::string_view name(const optimizer_options& options) {
  return std::visit([](const auto& rule) { return name_of(rule); }, options.rule);
}

std::span<const std::string_view> optimizer_names() { return rule_names; }

std::vector<std::string_view> optimizer_setting_names(std::string_view rule) {
  optimizer_options options;
  if (!choose(options.rule, rule)) return {};
  settings words("optimizer", rule);
  std::visit([&](auto& chosen) { read(words, chosen); }, options.rule);
  return {words.known().begin(), words.known().end()};
}

optimizer_options parse_optimizer(std::string_view text) {
  settings words("optimizer", text);
  optimizer_options options;
  if (names_a_plugin(words.name()))
    options.rule = load_plugin(words.name());
  else if (!choose(options.rule, words.name()))
    throw std::invalid_argument(
        fmt::format("optimizer '{}' is unknown; {}", words.name(), suggestion(words.name(), rule_names)));
  std::visit([&](auto& rule) { read(words, rule); }, options.rule);
  for (const std::string_view key : {"lr", "learning_rate"})
    words.refuse(key, "give the learning rate by --lr, of an outer optimizer by --outer-lr");
  words.require_nothing_left();
  return options;
}

void require_valid(const optimizer_options& options) {
  require_small(base_learning_rate(options), "learning rate");
  require_small(options.l2, "l2");
  require_small(base_weight_decay(options), "weight decay");
  require_small(options.clip_norm, "clip norm");
  std::visit([](const auto& rule) { require_valid_rule(rule); }, options.rule);
  require_valid(options.schedule);
}

} // namespace mailgrad
