#include <mailgrad/lab/sweep/sweep_file.hpp>

#include <mailgrad/files/text.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>

namespace mailgrad::lab {

namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t most_cells = 100'000;
constexpr std::array<std::string_view, 6> known_keys{"run", "grid", "without", "tune", "target", "tests"};
constexpr std::array<std::string_view, 4> known_figures{"test_accuracy", "test_loss", "test_rmse",
                                                        "train_loss"};

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

/// A parser would take the last of two values of one key without a word.
json parsed(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto note = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      refuse(fmt::format("'{}' is there twice", value.get<std::string>()));
    return true;
  };
  try {
    return json::parse(whole_json(text), note);
  } catch (const json::parse_error& e) {
    const std::size_t at = std::min(text.size(), e.byte == 0 ? 0 : e.byte - 1);
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    refuse(fmt::format("line {} is no JSON", line));
  }
}

/// A value of an option, as one would write it on a command line.
std::string text_of(const json& value, const std::string& key) {
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (!value.is_string())
    refuse(fmt::format("'{}' has {}, which is no text, no number, and neither true nor false", key,
                       value.dump()));
  const auto text = value.get<std::string>();
  if (text.find_first_of("\n\r") != std::string::npos) refuse(fmt::format("'{}' has a line break", key));
  return text;
}

const json& object_of(const json& file, const char* key) {
  if (!file[key].is_object()) refuse(fmt::format("'{}' is no object of options", key));
  return file[key];
}

sweep_axis axis_of(const std::string& key, const json& values) {
  if (!values.is_array()) refuse(fmt::format("grid: '{}' is no list of values, such as [1, 2]", key));
  if (values.empty()) refuse(fmt::format("grid: '{}' has no value", key));
  sweep_axis axis{key, {}};
  for (const json& value : values) {
    axis.values.push_back(text_of(value, key));
    if (std::ranges::count(axis.values, axis.values.back()) > 1)
      refuse(fmt::format("grid: '{}' has {} twice", key, value.dump()));
  }
  return axis;
}

void read_grid(const json& grid, sweep& s) {
  if (grid.empty()) refuse("'grid' is empty; it needs a list of values for at least one option");
  std::size_t cells = 1;
  for (const auto& [key, values] : grid.items()) {
    if (std::ranges::find(s.settings, key, &sweep_setting::key) != s.settings.end())
      refuse(fmt::format("'{}' is in 'run' and in 'grid': give it once", key));
    s.grid.push_back(axis_of(key, values));
    if (s.grid.back().values.size() > most_cells / cells)
      refuse(fmt::format("'grid' has more than {} cells", most_cells));
    cells *= s.grid.back().values.size();
  }
}

/// The values of one combination that is left out.
std::vector<sweep_setting> combination_of(const json& values, const sweep& s) {
  if (!values.is_object() || values.empty())
    refuse("'without' has an entry that is no object of options of 'grid'");
  std::vector<sweep_setting> combination;
  for (const auto& [key, value] : values.items()) {
    const std::optional<std::size_t> axis = s.axis(key);
    if (!axis) refuse(fmt::format("without: '{}' is no option of 'grid'", key));
    combination.push_back({key, text_of(value, key)});
    const std::vector<std::string>& known = s.grid[*axis].values;
    if (std::ranges::find(known, combination.back().value) == known.end())
      refuse(fmt::format("without: '{}' has no value {} in 'grid'", key, value.dump()));
  }
  return combination;
}

void read_without(const json& list, sweep& s) {
  if (!list.is_array()) refuse("'without' is no list of objects, such as [{\"policy\": \"sync\"}]");
  for (const json& values : list) s.without.push_back(combination_of(values, s));
  if (s.kept_cells().empty()) refuse("'without' leaves no cell of 'grid'");
}

void read_tune(const json& key, sweep& s) {
  s.tune = key.is_string() ? key.get<std::string>() : key.dump();
  if (s.tune == seed_key) refuse("tune: seeds are not tuned; medians are taken over them");
  if (!s.axis(s.tune)) refuse(fmt::format("tune: '{}' is no option of 'grid'", s.tune));
}

sweep_target target_of(const json& target) {
  if (!target.is_object() || target.size() != 1)
    refuse("'target' is no object with one figure, such as {\"test_accuracy\": 0.9}");
  const std::string figure = target.begin().key();
  if (std::ranges::find(known_figures, figure) == known_figures.end())
    refuse(fmt::format("target: figure '{}' is unknown; {}", figure, suggestion(figure, known_figures)));
  if (!target.begin()->is_number()) refuse(fmt::format("target: '{}' is no number", figure));
  return {figure, target.begin()->get<double>()};
}

std::uint64_t tests_of(const json& tests) {
  constexpr std::uint64_t most_tests = 10'000;
  if (!tests.is_number_unsigned() || tests < 1U || tests > most_tests)
    refuse(fmt::format("'tests' is no whole number from 1 to {}", most_tests));
  return tests.get<std::uint64_t>();
}

} // namespace

bool sweep_target::reached_by(double measured) const noexcept {
  return figure == "test_accuracy" ? measured >= value : measured <= value;
}

std::size_t sweep::cells() const noexcept {
  std::size_t n = 1;
  for (const sweep_axis& a : grid) n *= a.values.size();
  return n;
}

std::vector<std::string> sweep::values_of(std::size_t cell) const {
  std::vector<std::string> values(grid.size());
  for (std::size_t a = grid.size(); a-- > 0;) {
    values[a] = grid[a].values[cell % grid[a].values.size()];
    cell /= grid[a].values.size();
  }
  return values;
}

std::vector<std::size_t> sweep::kept_cells() const {
  std::vector<std::size_t> kept;
  for (std::size_t cell = 0; cell < cells(); ++cell) {
    const std::vector<std::string> values = values_of(cell);
    const auto has = [&](const sweep_setting& x) { return values[*axis(x.key)] == x.value; };
    const auto has_all = [&](const auto& combination) { return std::ranges::all_of(combination, has); };
    if (std::ranges::none_of(without, has_all)) kept.push_back(cell);
  }
  return kept;
}

std::vector<sweep_setting> sweep::settings_of(std::size_t cell) const {
  constexpr const char* delays_seed = "delays-seed";
  std::vector<sweep_setting> all = settings;
  const std::vector<std::string> values = values_of(cell);
  for (std::size_t a = 0; a < grid.size(); ++a) all.push_back({grid[a].key, values[a]});
  const std::optional<std::size_t> seeds = axis(seed_key);
  if (seeds && std::ranges::find(all, delays_seed, &sweep_setting::key) == all.end())
    all.push_back({delays_seed, values[*seeds]});
  return all;
}

std::optional<std::size_t> sweep::axis(std::string_view key) const {
  const auto found = std::ranges::find(grid, key, &sweep_axis::key);
  if (found == grid.end()) return std::nullopt;
  return static_cast<std::size_t>(found - grid.begin());
}

std::uint64_t steps_between_tests(std::uint64_t steps, std::uint64_t tests) noexcept {
  return std::max<std::uint64_t>(1, steps / tests + (steps % tests > 0 ? 1 : 0));
}

sweep parse_sweep(std::string_view text) {
  const json file = parsed(text);
  if (!file.is_object()) refuse("this is no JSON object with 'run' and 'grid'");
  for (const auto& [key, value] : file.items())
    if (std::ranges::find(known_keys, key) == known_keys.end())
      refuse(fmt::format("key '{}' is unknown; {}", key, suggestion(key, known_keys)));
  if (!file.contains("grid")) refuse("'grid' is missing, with a list of values for each option to vary");
  sweep s;
  if (file.contains("run"))
    for (const auto& [key, value] : object_of(file, "run").items())
      s.settings.push_back({key, text_of(value, key)});
  read_grid(object_of(file, "grid"), s);
  if (file.contains("without")) read_without(file["without"], s);
  if (file.contains("tune")) read_tune(file["tune"], s);
  if (file.contains("target")) s.target = target_of(file["target"]);
  if (file.contains("tests")) s.tests = tests_of(file["tests"]);
  return s;
}

std::string to_json(const sweep& s) {
  json file{{"run", json::object()}, {"grid", json::object()}};
  for (const sweep_setting& setting : s.settings) file["run"][setting.key] = setting.value;
  for (const sweep_axis& axis : s.grid) file["grid"][axis.key] = axis.values;
  for (const auto& combination : s.without) {
    json values = json::object();
    for (const sweep_setting& x : combination) values[x.key] = x.value;
    file["without"].push_back(std::move(values));
  }
  if (!s.tune.empty()) file["tune"] = s.tune;
  if (s.target) file["target"] = {{s.target->figure, s.target->value}};
  file["tests"] = s.tests;
  return file.dump();
}

} // namespace mailgrad::lab
