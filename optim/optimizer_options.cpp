#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/options/settings.hpp>

#include <fmt/format.h>

#include <array>
#include <limits>
#include <type_traits>

namespace mailgrad {

namespace {

/// Whether a rule is one of Mailgrad's, which parse_optimizer() knows by name.
template <class Rule>
constexpr bool built_in = !std::is_same_v<Rule, custom_rule>;

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

struct setting_limits {
  double least, below;     ///< of what is read
  bool (*holds)(double x); ///< when a run begins
  const char* in_words;
};

constexpr double most_side = 1 << 16;
constexpr double most_float = std::numeric_limits<float>::max();

/// By setting_range.
constexpr std::array<setting_limits, 7> limits{{
    {0, unlimited, [](double) { return true; }, ""},
    {0, 1, [](double x) { return x >= 0 && x < 1; }, "at least 0 and less than 1"},
    // momentum-compensation may make it negative
    {-1, 1, [](double x) { return x > -1 && x < 1; }, "more than -1 and less than 1"},
    {0, unlimited, [](double x) { return x >= 0 && x <= most_float; },
     "a number of at least 0 that a float32 can hold"},
    {0, unlimited, [](double x) { return x > 0 && x <= most_float; },
     "more than 0 and a number that a float32 can hold"},
    {1, unlimited, [](double x) { return x > 0; }, "at least 1"},
    {0, most_side, [](double x) { return x <= most_side; }, "at most 65536"},
}};

const setting_limits& limits_of(setting_range r) { return limits[static_cast<std::size_t>(r)]; }
void take(settings& s, std::string_view name, double& x, setting_range r) {
  x = s.take_number(name, x, limits_of(r).least, limits_of(r).below);
}
void take(settings& s, std::string_view name, std::uint64_t& x, setting_range r) {
  constexpr std::uint64_t any = std::numeric_limits<std::uint64_t>::max();
  const setting_limits& l = limits_of(r);
  x = s.take_whole(name, x, static_cast<std::uint64_t>(l.least),
                   l.below == unlimited ? any : static_cast<std::uint64_t>(l.below));
}
void take(settings& s, std::string_view name, bool& x, setting_range) { x = s.take_yes(name, x); }
void take(settings& s, std::string_view name, std::string& x, setting_range) { x = s.take_text(name, x); }

template <class Rule>
void read(settings& s, Rule& o) {
  Rule::visit(o, [&](std::string_view name, auto& x, setting_range r) { take(s, name, x, r); });
}
void read(settings& s, custom_rule& o) {
  for (std::size_t i = 0; i < o.table->setting_count; ++i) {
    const mailgrad_rule_setting& known = o.table->settings[i];
    o.settings[i] = s.take_number(known.name, o.settings[i], known.least, known.below);
  }
}

/// Sets `rule` to the alternative of that name; false if there is none.
template <class... Rules>
bool choose(std::variant<Rules...>& rule, std::string_view wanted) {
  const auto is_named = [&]<class Rule>(const Rule*) {
    if constexpr (built_in<Rule>) return Rule::name == wanted;
    return false;
  };
  return ((is_named(static_cast<const Rules*>(nullptr)) && (rule = Rules{}, true)) || ...);
}

void require(bool right, std::string_view option, double value, std::string_view range) {
  if (!right)
    throw std::invalid_argument(fmt::format("optimizer: {} must be {}, not {:f}", option, range, value));
}

void require_small(double x, std::string_view option) {
  const setting_limits& small = limits_of(setting_range::small);
  require(small.holds(x), option, x, small.in_words);
}

template <class Rule>
void require_valid_rule(const Rule& o) {
  Rule::visit(o, [](std::string_view name, const auto& value, setting_range r) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
      const auto x = static_cast<double>(value);
      require(limits_of(r).holds(x), name, x, limits_of(r).in_words);
    }
  });
  if constexpr (std::is_same_v<Rule, delayed_nesterov_options>) {
    const auto period = static_cast<double>(o.period);
    require(o.period > 0, "period", period, "at least 1");
    require(o.early >= 0 && o.early * period <= 1, "early", o.early, "at least 0 and at most 1 / period");
  }
}
void require_valid_rule(const custom_rule& o) { require_valid(o); }

} // namespace

double base_learning_rate(const optimizer_options& options) {
  const auto usual = []<class Rule>(const Rule& o) {
    if constexpr (built_in<Rule>)
      return Rule::default_learning_rate;
    else
      return o.table ? o.table->learning_rate : 0;
  };
  return options.learning_rate ? *options.learning_rate : std::visit(usual, options.rule);
}

double base_weight_decay(const optimizer_options& options) {
  const auto usual = []<class Rule>(const Rule&) -> double {
    if constexpr (requires { Rule::default_weight_decay; })
      return Rule::default_weight_decay;
    else
      return 0;
  };
  return options.weight_decay ? *options.weight_decay : std::visit(usual, options.rule);
}

bool sees_whole_variables(const optimizer_options& options) {
  if (const auto* custom = std::get_if<custom_rule>(&options.rule))
    return custom->table && custom->table->whole_variables != 0;
  const auto sees = []<class Rule>(const Rule&) {
    return requires { Rule::whole_variables; };
  };
  return std::visit(sees, options.rule);
}

std::string_view name(const optimizer_options& options) {
  if (const auto* custom = std::get_if<custom_rule>(&options.rule)) return custom->label;
  return rule_names[options.rule.index()];
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
