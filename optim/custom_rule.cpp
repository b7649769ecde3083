#include <mailgrad/optim/custom_rule.hpp>

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>

namespace mailgrad {

namespace {

void require_settings(std::span<const mailgrad_rule_setting> settings, std::string_view who) {
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const mailgrad_rule_setting& s = settings[i];
    if (!s.name || !*s.name) refuse_rule(who, "has a setting without a name");
    if (!is_custom_name(s.name))
      refuse_rule(
          who, fmt::format("has a name for setting {} that is not of letters, digits, '_' and '-'", i + 1));
    const auto same = [&](const mailgrad_rule_setting& other) {
      return std::string_view(other.name) == s.name;
    };
    if (std::ranges::any_of(settings.first(i), same))
      refuse_rule(who, fmt::format("has two settings '{}'", s.name));
    if (!in_range(s, s.value))
      refuse_rule(who, fmt::format("has a setting '{}' out of its own range", s.name));
  }
}

constexpr std::size_t trial_weights = 64;
constexpr std::uint64_t trial_steps = 3;
using trial_values = std::array<float, trial_weights>;

/// Numbers of both signs, with zeros among them; neighbours differ.
trial_values wave(std::uint64_t seed) {
  trial_values values{};
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 37 + seed * 11) % 29) / 9 - 14.0F / 9;
  return values;
}

/// Trains the same weights several times, always in the same memory, so that it also finds a rule that
/// remembers weights by their address.
class trial {
public:
  trial(const mailgrad_rule& table, std::span<const double> settings) : table_(table), settings_(settings) {}

  struct form {
    std::size_t cut; ///< weights in the first of two ranges; all of them if there is one range
    bool in_place;
    bool prepares;     ///< the rule prepares gradients and weights itself
    const char* fault; ///< the message if the weights differ from those of the first form
  };

  /// Weights and states after all steps.
  std::vector<float> run(const form& f) {
    weights_ = wave(0);
    for (trial_values& state : states_) state.fill(0);
    for (std::uint64_t step = 1; step <= trial_steps; ++step) {
      const trial_values gradient = wave(step);
      update(f, gradient, step, 0, f.cut);
      if (f.cut < trial_weights) update(f, gradient, step, f.cut, trial_weights);
      if (!f.in_place) weights_ = spare_;
    }
    std::vector<float> values(weights_.begin(), weights_.end());
    for (std::size_t i = 0; i < table_.states; ++i)
      values.insert(values.end(), states_[i].begin(), states_[i].end());
    return values;
  }

private:
  void update(const form& f, trial_values gradient, std::uint64_t step, std::size_t first, std::size_t end) {
    if (!f.prepares) prepare(gradient, first, end);
    std::array<float*, MAILGRAD_PLUGIN_MOST_STATES> states{};
    for (std::size_t i = 0; i < table_.states; ++i) states[i] = states_[i].data() + first;
    const mailgrad_rule_step s{weights_.data() + first,
                               (f.in_place ? weights_ : spare_).data() + first,
                               gradient.data() + first,
                               states.data(),
                               end - first,
                               step,
                               table_.learning_rate,
                               settings_.data(),
                               f.prepares ? &preparation : nullptr,
                               table_.whole_variables != 0 ? &variable : nullptr};
    table_.update(&s);
  }

  void prepare(trial_values& gradient, std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      const float w = weights_[i];
      gradient[i] = preparation.scale * gradient[i] + preparation.l2 * w;
      weights_[i] = w - preparation.decay * w;
    }
  }

  /// Products with powers of two are exact, so it does not matter whether a compiler fuses multiply and add.
  static constexpr mailgrad_preparation preparation{0.5F, 0.25F, 0.125F};
  static constexpr std::array<std::size_t, 2> extents{4, 16};
  static constexpr mailgrad_variable variable{"trial", extents.size(), extents.data(), 0};

  const mailgrad_rule& table_;
  std::span<const double> settings_;
  trial_values weights_{}, spare_{};
  std::array<trial_values, MAILGRAD_PLUGIN_MOST_STATES> states_{};
};

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// What is wrong with the rule; empty if nothing is.
const char* fault_of(const mailgrad_rule& table, std::span<const double> settings) {
  constexpr trial::form forms[] = {
      {trial_weights, true, false,
       "makes other weights when it begins anew: it must not keep anything between calls but its states, nor "
       "ask a clock or a random source"},
      {23, true, false,
       "makes other weights of 64 in one range than in two, of 23 and 41: each weight must follow from its "
       "own gradient and states, not from a neighbour or the count"},
      {trial_weights, false, false,
       "makes other weights in place than in memory apart: it must not read a weight after it has written "
       "it"},
      {trial_weights, true, true,
       "says that it prepares its gradients, and makes other weights than with prepared ones: it must do "
       "what 'preparation' asks for, or leave 'prepares' at 0"},
  };
  trial t(table, settings);
  const std::vector<float> expected = t.run(forms[0]);
  const bool whole = table.whole_variables != 0; // such a variable is never cut, and updated in place
  for (const trial::form& f : std::span(forms).first(whole ? 1 : std::size(forms)))
    if ((table.prepares != 0 || !f.prepares) && !std::ranges::equal(t.run(f), expected, same)) return f.fault;
  return "";
}

/// The table is one of as_of_today() (above).
/// Errors  std::invalid_argument in one line: a version of the interface to come, a name or a function that
///         is missing, two settings of one name, too many states or settings, a default out of its range.
void require_complete(const mailgrad_rule& table, std::string_view who) {
  // The version is checked first, because it decides what the other fields of a table mean.
  if (table.interface_version != MAILGRAD_PLUGIN_VERSION)
    refuse_rule(who,
                fmt::format("has version {} of the plug-in interface, this mailgrad has versions 1 to {}: "
                            "build it against the headers of this one",
                            table.interface_version, MAILGRAD_PLUGIN_VERSION));
  if (!table.name || !*table.name) refuse_rule(who, "has no name in its table");
  if (!table.update) refuse_rule(who, "has no update function in its table");
  if (table.whole_variables != 0 && table.prepares != 0)
    refuse_rule(who,
                "asks for whole variables and says that it prepares its gradients: leave 'prepares' at 0");
  if (table.states > MAILGRAD_PLUGIN_MOST_STATES)
    refuse_rule(who, fmt::format("keeps {} floats for a weight; {} are the most", table.states,
                                 MAILGRAD_PLUGIN_MOST_STATES));
  if (!(table.learning_rate >= 0 && std::isfinite(table.learning_rate)))
    refuse_rule(who, fmt::format("has a learning rate of {:f} in its table", table.learning_rate));
  if (table.setting_count > MAILGRAD_PLUGIN_MOST_SETTINGS)
    refuse_rule(who, fmt::format("has {} settings; {} are the most", table.setting_count,
                                 MAILGRAD_PLUGIN_MOST_SETTINGS));
  if (table.setting_count > 0 && !table.settings) refuse_rule(who, "has no list of its settings");
  require_settings({table.settings, table.setting_count}, who);
}

/// Updates 64 weights three times, in one range and in two, in place and into other memory, and compares the
/// bits. This finds rules that would make training depend on how a shard is cut. A rule of whole variables is
/// only asked to make the same bits again.
/// Errors  std::invalid_argument in one line, for a rule that looks at a neighbour, keeps something between
///         calls, reads a weight after writing it, or throws.
void require_element_by_element(const mailgrad_rule& table, std::span<const double> settings,
                                std::string_view who) {
  std::string fault;
  try {
    fault = fault_of(table, settings);
  } catch (const std::exception& e) {
    fault = std::string("throws in an update: ") + e.what();
  }
  if (!fault.empty()) refuse_rule(who, fault);
}

/// `who` is the name of the rule in an error.
custom_rule checked_rule(const mailgrad_rule& told, std::string_view who) {
  const mailgrad_rule& table = as_of_today(told);
  require_complete(table, who);
  custom_rule rule{&table, {}, table.name, {}, {}};
  for (std::size_t i = 0; i < table.setting_count; ++i) rule.settings.push_back(table.settings[i].value);
  require_element_by_element(table, rule.settings, who);
  return rule;
}

} // namespace

/// A step has grown at its end alone, so a rule of an older version finds in it what it knows. Copies are
/// told apart by what they hold: a library that was refused is unloaded, and another may come to lie in its
/// place.
const mailgrad_rule& as_of_today(const mailgrad_rule& table) {
  const std::uint32_t version = table.interface_version;
  const std::size_t bytes = version == 1   ? offsetof(mailgrad_rule, prepares)
                            : version == 2 ? offsetof(mailgrad_rule, whole_variables)
                                           : 0;
  if (bytes == 0) return table; // it has all that one of this version has, or nobody knows
  mailgrad_rule copy{};
  std::memcpy(&copy, &table, bytes);
  copy.interface_version = MAILGRAD_PLUGIN_VERSION;
  static std::mutex mutex;
  static std::deque<mailgrad_rule> copies;
  const std::lock_guard guard(mutex);
  const auto known = std::ranges::find_if(
      copies, [&](const mailgrad_rule& c) { return std::memcmp(&c, &copy, sizeof(copy)) == 0; });
  return known == copies.end() ? copies.emplace_back(copy) : *known;
}

void refuse_rule(std::string_view who, const std::string& why) {
  throw std::invalid_argument(fmt::format("optimizer '{}' {}", who, why));
}
bool in_range(const mailgrad_rule_setting& s, double value) { return value >= s.least && value < s.below; }
custom_rule make_custom_rule(const mailgrad_rule& table) { return checked_rule(table, "your own rule"); }

custom_rule load_plugin(std::string_view path) {
  plugin_library library(path, [path](const std::string& why) { refuse_rule(path, why); });
  custom_rule rule =
      checked_rule(*static_cast<const mailgrad_rule*>(library.table_from("mailgrad_plugin_rule")), path);
  rule.label += fmt::format(" ({})", path);
  rule.file = path;
  library.keep();
  return rule;
}

void require_valid(const custom_rule& rule) {
  if (!rule.table) throw std::invalid_argument("optimizer: your own rule has no table");
  const std::string who = rule.label.empty() ? "your own rule" : rule.label;
  require_complete(*rule.table, who);
  if (rule.settings.size() != rule.table->setting_count)
    refuse_rule(who, fmt::format("has {} settings, not {}", rule.table->setting_count, rule.settings.size()));
  for (std::size_t i = 0; i < rule.settings.size(); ++i)
    if (!in_range(rule.table->settings[i], rule.settings[i]))
      refuse_rule(who, fmt::format("cannot have {} = {:f}", rule.table->settings[i].name, rule.settings[i]));
  require_element_by_element(*rule.table, rule.settings, who);
}

} // namespace mailgrad
