#pragma once

#include <mailgrad/optim/plugin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

// Finds the names of a functor's fields, so that plugin.hpp can compare them with the names of its settings.
// C++20 cannot list fields. But g++ and clang write the name of a field into the name of a function that has
// the field's address as a template argument.

// Makes an update rule from a user's functor, for a shared library or for a program that trains with it. This
// needs Mailgrad's headers only.
//
//     struct scaled_sgd {
//       static constexpr const char* name = "scaled-sgd";
//       static constexpr std::size_t states = 0;               // floats kept for each weight
//       static constexpr double default_learning_rate = 0.01;  // 0.001 if there is none
//       static constexpr mailgrad_rule_setting settings[] = {{"scale", 1, 0, 10}}; // or none
//
//       float learning_rate, scale; // of the step, then the settings by their names and in their order
//       void operator()(float& w, float g) const { w -= learning_rate * scale * g; }
//     };
//     MAILGRAD_PLUGIN(scaled_sgd)
//
// A rule with states has `operator()(float& w, float g, float& first, ...)`. It works element by element: a
// weight depends only on its old value, its gradient and its states, because a shard may be cut anywhere.
//
// A rule that has `static constexpr bool whole_variables = true` looks at one whole variable at a time, such
// as a matrix. It has `operator()(const mailgrad_rule_step& step) const` instead, which finds weights,
// gradient and states there, each float32[step.count], and the variable's name and shape in `step.variable`.
//
// A rule that needs more, such as the step for a bias correction, has a constructor from `const
// mailgrad_rule_step&`. The constructor finds there the step, the learning rate and the settings, but no
// weights. It must copy the numbers and keep no pointer. A trivially copyable rule is made at most once for
// an update and may serve several shards of one step; any other rule is made for each range of weights.

namespace mailgrad {

template <class T>
struct held_fields {
  T value;
};

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif

/// This object is never defined: only the addresses of its fields are used.
template <class T>
extern const held_fields<T> never_made;

template <class Field>
struct field_address {
  const Field* value;
};
template <class Field>
field_address(const Field*) -> field_address<Field>;

template <class... Fields>
static consteval auto addresses(const Fields&... fields) {
  return std::tuple{field_address{&fields}...};
}

/// The most fields whose names field_names() finds.
inline constexpr std::size_t most_named_fields = 9;

template <class T, std::size_t count>
static consteval auto field_addresses() {
  static_assert(count > 0 && count <= most_named_fields);
  auto& x = never_made<T>.value;
  if constexpr (count == 1) {
    auto& [a] = x;
    return addresses(a);
  } else if constexpr (count == 2) {
    auto& [a, b] = x;
    return addresses(a, b);
  } else if constexpr (count == 3) {
    auto& [a, b, c] = x;
    return addresses(a, b, c);
  } else if constexpr (count == 4) {
    auto& [a, b, c, d] = x;
    return addresses(a, b, c, d);
  } else if constexpr (count == 5) {
    auto& [a, b, c, d, e] = x;
    return addresses(a, b, c, d, e);
  } else if constexpr (count == 6) {
    auto& [a, b, c, d, e, f] = x;
    return addresses(a, b, c, d, e, f);
  } else if constexpr (count == 7) {
    auto& [a, b, c, d, e, f, g] = x;
    return addresses(a, b, c, d, e, f, g);
  } else if constexpr (count == 8) {
    auto& [a, b, c, d, e, f, g, h] = x;
    return addresses(a, b, c, d, e, f, g, h);
  } else {
    auto& [a, b, c, d, e, f, g, h, i] = x;
    return addresses(a, b, c, d, e, f, g, h, i);
  }
}

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

/// A text such as "... field_address<float>{&never_made.value.beta1}]", whose last word is the field's name.
template <field_address field>
static consteval const char* text_with_field() {
  return __PRETTY_FUNCTION__;
}

static consteval std::string_view last_word(std::string_view text) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  text = text.substr(0, text.find_last_of(letters) + 1);
  return text.substr(text.find_last_not_of(letters) + 1);
}

/// The names of all fields of T, an aggregate of `count` fields.
template <class T, std::size_t count>
static consteval std::array<std::string_view, count> field_names() {
  return []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<std::string_view, count>{
        last_word(text_with_field<std::get<i>(field_addresses<T, count>())>())...};
  }
  (std::make_index_sequence<count>{});
}

struct two_fields {
  float first, second;
};

/// Whether this compiler writes names as expected; if not, the names of fields are not checked.
static constexpr bool knows_field_names =
    field_names<two_fields, 2>() == std::array<std::string_view, 2>{"first", "second"};

// Everything here is static, because two libraries may both have a rule `mine`: with external linkage they
// would share one table.

/// The settings of a functor, none if it has none.
template <class Rule>
static constexpr auto settings_of() {
  if constexpr (requires { Rule::settings; })
    return std::to_array(Rule::settings);
  else
    return std::array<mailgrad_rule_setting, 0>{};
}
template <class Rule>
static constexpr auto rule_settings = settings_of<Rule>();

template <class Rule>
static constexpr double learning_rate_of() {
  if constexpr (requires { Rule::default_learning_rate; })
    return Rule::default_learning_rate;
  else
    return 1e-3;
}

template <class Rule>
static constexpr bool makes_itself = std::is_constructible_v<Rule, const mailgrad_rule_step&>;

/// Whether Rule can be initialised from so many floats.
template <class Rule, std::size_t... i>
static consteval bool takes_floats(std::index_sequence<i...>) {
  return requires(const float(&x)[sizeof...(i)]) { Rule{x[i]...}; };
}

/// Whether the fields of Rule are the learning rate and then the settings, in order and with the same names.
template <class Rule>
static consteval bool fields_fit() {
  constexpr std::size_t count = rule_settings<Rule>.size() + 1;
  if constexpr (!std::is_aggregate_v<Rule> || count > most_named_fields ||
                !takes_floats<Rule>(std::make_index_sequence<count>{}) ||
                takes_floats<Rule>(std::make_index_sequence<count + 1>{})) {
    return false;
  } else if constexpr (knows_field_names) {
    constexpr auto names = field_names<Rule, count>();
    for (std::size_t i = 1; i < count; ++i)
      if (names[i] != rule_settings<Rule>[i - 1].name) return false;
    return names[0] == "learning_rate";
  }
  return true;
}

template <class Rule>
static consteval bool settings_fit() {
  for (const mailgrad_rule_setting& s : rule_settings<Rule>)
    if (!s.name || !*s.name || !(s.value >= s.least && s.value < s.below)) return false;
  return true;
}

template <class Rule>
static consteval bool names_differ() {
  for (const mailgrad_rule_setting& s : rule_settings<Rule>)
    for (const mailgrad_rule_setting& other : rule_settings<Rule>)
      if (&s != &other && std::string_view(s.name) == other.name) return false;
  return true;
}

/// Refuses at compile time a rule that would compile and then compute something else.
template <class Rule>
static consteval void require_fitting() {
  static_assert(!std::string_view(Rule::name).empty(), "a rule has a name");
  static_assert(Rule::states <= MAILGRAD_PLUGIN_MOST_STATES, "a rule keeps at most 8 floats for a weight");
  static_assert(settings_fit<Rule>(), "each setting of a rule has a name, and a value in its own range");
  static_assert(names_differ<Rule>(), "two settings of a rule have the same name");
  static_assert(
      makes_itself<Rule> || fields_fit<Rule>(),
      "the fields of a rule are learning_rate, then its settings by their names and in their order, "
      "8 at most; any other rule has a constructor from const mailgrad_rule_step&");
}

/// The step without its pointers to weights, for the constructor of a rule.
static constexpr mailgrad_rule_step without_weights(const mailgrad_rule_step& step) {
  return {nullptr,       nullptr, nullptr, nullptr, 0, step.step, step.learning_rate,
          step.settings, nullptr, nullptr};
}

/// This thread's last rule, made anew if step, rate or settings differ. It is kept because the powers of a
/// bias correction take longer than the update of a short range of weights.
template <class Rule>
static const Rule& rule_made_for(const mailgrad_rule_step& step) {
  struct last {
    std::optional<Rule> rule;
    std::uint64_t step = 0;
    double learning_rate = 0;
    std::array<double, rule_settings<Rule>.size()> settings{};
  };
  static thread_local last made;
  const bool same = made.rule && made.step == step.step && made.learning_rate == step.learning_rate &&
                    std::equal(made.settings.begin(), made.settings.end(), step.settings);
  if (same) return *made.rule;
  made.rule.emplace(without_weights(step));
  made.step = step.step;
  made.learning_rate = step.learning_rate;
  std::copy_n(step.settings, made.settings.size(), made.settings.begin());
  return *made.rule;
}

template <class Rule>
static consteval bool sees_whole_variables_of() {
  if constexpr (requires { Rule::whole_variables; })
    return Rule::whole_variables;
  else
    return false;
}

/// The functor of one step.
template <class Rule, std::size_t... i>
static Rule functor_of(const mailgrad_rule_step& step, std::index_sequence<i...>) {
  if constexpr (makes_itself<Rule> && std::is_trivially_copyable_v<Rule> &&
                std::is_copy_constructible_v<Rule>)
    return rule_made_for<Rule>(step);
  else if constexpr (makes_itself<Rule>)
    return Rule(without_weights(step));
  else
    return Rule{static_cast<float>(step.learning_rate), static_cast<float>(step.settings[i])...};
}

#if defined(__clang__) // clang warns of a loop that it cannot vectorise, but not every user's rule can be
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

/// For gradients and weights that Mailgrad has prepared.
struct prepared_values {
  static float gradient(float g, float) { return g; }
  static float weight(float w) { return w; }
};

/// For gradients and weights that the loop itself prepares.
struct raw_values {
  float scale, l2, decay;
  float gradient(float g, float w) const { return scale * g + l2 * w; }
  float weight(float w) const { return w - decay * w; }
};

template <class Rule, class Values, std::size_t... i>
static void run_loop(const mailgrad_rule_step& step, const Values values, std::index_sequence<i...>) {
  const Rule rule = functor_of<Rule>(step, std::make_index_sequence<rule_settings<Rule>.size()>{});
  [[maybe_unused]] const std::array<float*, Rule::states> state{step.states[i]...};
  const float* weights = step.weights;
  const float* gradient = step.gradient;
  float* updated = step.updated;
  // `weights` and `updated` are the same memory or apart, so no iteration touches another's.
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#elif defined(__GNUC__)
#pragma GCC ivdep
#endif
  for (std::size_t k = 0; k < step.count; ++k) {
    const float before = weights[k];
    float w = values.weight(before);
    rule(w, values.gradient(gradient[k], before), state[i][k]...);
    updated[k] = w;
  }
}

template <class Rule>
static void run_rule(const mailgrad_rule_step& step) {
  if constexpr (sees_whole_variables_of<Rule>()) {
    functor_of<Rule>(step, std::make_index_sequence<rule_settings<Rule>.size()>{})(step);
  } else {
    constexpr auto states = std::make_index_sequence<Rule::states>{};
    if (!step.preparation) return run_loop<Rule>(step, prepared_values{}, states);
    const mailgrad_preparation& raw = *step.preparation;
    run_loop<Rule>(step, raw_values{raw.scale, raw.l2, raw.decay}, states);
  }
}

/// The table of a functor: `options.rule = make_custom_rule(rule_table<scaled_sgd>)`, or what a plug-in
/// exports.
template <class Rule>
static constexpr mailgrad_rule rule_table{
    .interface_version = MAILGRAD_PLUGIN_VERSION,
    .states = Rule::states,
    .name = Rule::name,
    .learning_rate = learning_rate_of<Rule>(),
    .setting_count = rule_settings<Rule>.size(),
    .settings = rule_settings<Rule>.data(),
    .update =
        [](const mailgrad_rule_step* step) {
          require_fitting<Rule>();
          run_rule<Rule>(*step);
        },
    .prepares = sees_whole_variables_of<Rule>() ? 0 : 1,
    .whole_variables = sees_whole_variables_of<Rule>() ? 1 : 0,
};

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

} // namespace mailgrad

/// Exports the functor `rule` from a shared library. Write it once in a library, outside of every namespace.
#define MAILGRAD_PLUGIN(rule)                                                                                \
  const mailgrad_rule* mailgrad_plugin_rule() { return &mailgrad::rule_table<rule>; }
