#include <mailgrad/lab/sweep/sweep_row.hpp>
#include <mailgrad/lab/sweep/sweep_summary.hpp>
#include <mailgrad/options/number.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

namespace mailgrad::lab {

namespace {

/// Source  Hyndman & Fan, The American Statistician 50(4), 1996, definition 7.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const double part = at - std::floor(at);
  if (part == 0 || std::isinf(sorted[below])) return sorted[below];
  return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

} // namespace

quartiles quartiles_of(std::vector<double> numbers) {
  if (numbers.empty()) throw std::invalid_argument("quartiles: there is no number");
  std::ranges::sort(numbers);
  return {quantile(numbers, 0.25), quantile(numbers, 0.5), quantile(numbers, 0.75)};
}

namespace {

constexpr double for_ever = std::numeric_limits<double>::infinity();

using row_figure = std::optional<double> sweep_row::*;

/// A figure of a run by which methods are judged.
struct figure_kind {
  std::string_view name;
  row_figure of_row;
  std::optional<quartiles> sweep_summary::*of_method;
};

figure_kind kind_of(judged_figure f) noexcept {
  switch (f) {
  case judged_figure::test_accuracy:
    return {"test accuracy", &sweep_row::test_accuracy, &sweep_summary::test_accuracy};
  case judged_figure::test_rmse:
    return {"test RMSE", &sweep_row::test_rmse, &sweep_summary::test_rmse};
  case judged_figure::test_loss:
    return {"test loss", &sweep_row::test_loss, &sweep_summary::test_loss};
  case judged_figure::final_loss:
    break;
  }
  return {"loss of the last steps", &sweep_row::final_loss, &sweep_summary::final_loss};
}

row_figure member_of(judged_figure f) { return kind_of(f).of_row; }

double worst(judged_figure f) { return f == judged_figure::test_accuracy ? -for_ever : for_ever; }

using row_group = std::vector<const sweep_row*>;

std::optional<quartiles> quartiles_of_figure(const row_group& rows, judged_figure f) {
  const row_figure member = member_of(f);
  std::vector<double> numbers;
  bool known = false;
  for (const sweep_row* row : rows) {
    const std::optional<double>& figure = row->*member;
    known = known || figure;
    numbers.push_back(row->completed() && figure && std::isfinite(*figure) ? *figure : worst(f));
  }
  if (!known) return std::nullopt;
  return quartiles_of(std::move(numbers));
}

template <class Member>
std::optional<quartiles> quartiles_of_completed(const row_group& rows, Member member) {
  std::vector<double> numbers;
  for (const sweep_row* row : rows)
    if (row->completed()) numbers.push_back(row->*member);
  if (numbers.empty()) return std::nullopt;
  return quartiles_of(std::move(numbers));
}

sweep_summary summary_of(std::vector<std::string> values, const row_group& rows, bool has_target) {
  sweep_summary m{std::move(values), {}};
  std::vector<double> times;
  for (const sweep_row* row : rows) {
    m.cells.push_back(row->cell);
    m.completed += row->completed() ? 1 : 0;
    m.reached += row->time_to_target ? 1 : 0;
    times.push_back(row->time_to_target.value_or(for_ever));
  }
  m.test_accuracy = quartiles_of_figure(rows, judged_figure::test_accuracy);
  m.test_rmse = quartiles_of_figure(rows, judged_figure::test_rmse);
  m.test_loss = quartiles_of_figure(rows, judged_figure::test_loss);
  m.final_loss = quartiles_of_figure(rows, judged_figure::final_loss);
  m.virtual_seconds = quartiles_of_completed(rows, &sweep_row::virtual_seconds);
  m.staleness_mean = quartiles_of_completed(rows, &sweep_row::staleness_mean);
  if (has_target) m.time_to_target = quartiles_of(std::move(times));
  return m;
}

/// The values without those of some axes.
std::vector<std::string> values_without(const sweep& s, std::vector<std::string> values,
                                        std::initializer_list<std::string_view> axes) {
  for (const std::string_view axis : axes)
    if (const auto at = s.axis(axis)) values[*at].clear();
  return values;
}

double workers_of(const sweep& s, const sweep_summary& m) {
  const auto at = s.axis(workers_key);
  return at ? parse_number(m.values[*at]).value_or(0) : 0;
}

void add_speed_ups(const sweep& s, std::vector<sweep_summary>& methods) {
  if (!s.axis(workers_key)) return;
  std::map<std::vector<std::string>, const sweep_summary*> slowest;
  const auto key = [&](const sweep_summary& m) { return values_without(s, m.values, {s.tune, workers_key}); };
  for (const sweep_summary& m : methods) {
    const sweep_summary*& least = slowest[key(m)];
    if (!least || workers_of(s, m) < workers_of(s, *least)) least = &m;
  }
  for (sweep_summary& m : methods) {
    const sweep_summary& least = *slowest[key(m)];
    if (!m.time_to_target || !std::isfinite(m.time_to_target->median) ||
        !std::isfinite(least.time_to_target->median))
      continue;
    m.speed_up = least.time_to_target->median / m.time_to_target->median;
  }
}

std::string fields_of(const std::optional<quartiles>& q) {
  const auto field = [](double x) { return ',' + (std::isfinite(x) ? csv_field(x) : std::string()); };
  return q ? field(q->median) + field(q->low) + field(q->high) : ",,,";
}

/// Runs of a setting that have no row yet.
std::size_t missing_of(const sweep& s, const sweep_summary& m) {
  const auto of_setting = std::ranges::count_if(s.kept_cells(), [&](std::size_t cell) {
    const std::vector<std::string> values = s.values_of(cell);
    for (std::size_t a = 0; a < s.grid.size(); ++a)
      if (s.grid[a].key != seed_key && values[a] != m.values[a]) return false;
    return true;
  });
  return static_cast<std::size_t>(of_setting) - m.cells.size();
}

} // namespace

judged_figure judged_by(std::span<const sweep_row> rows) {
  for (const judged_figure f :
       {judged_figure::test_accuracy, judged_figure::test_rmse, judged_figure::test_loss})
    if (std::ranges::any_of(rows, [&](const sweep_row& row) { return (row.*member_of(f)).has_value(); }))
      return f;
  return judged_figure::final_loss;
}

std::string_view name_of(judged_figure f) noexcept { return kind_of(f).name; }

const std::optional<quartiles>& sweep_summary::judged(judged_figure f) const noexcept {
  return this->*kind_of(f).of_method;
}

bool sweep_summary::better_than(const sweep_summary& other, judged_figure f) const noexcept {
  const double mine = judged(f) ? judged(f)->median : worst(f);
  const double theirs = other.judged(f) ? other.judged(f)->median : worst(f);
  return f == judged_figure::test_accuracy ? mine > theirs : mine < theirs;
}

std::vector<sweep_summary> summaries_of(const sweep& s, std::span<const sweep_row> rows) {
  std::vector<std::pair<std::vector<std::string>, row_group>> groups;
  std::map<std::vector<std::string>, std::size_t> place;
  for (const sweep_row& row : rows) {
    std::vector<std::string> values = values_without(s, row.values, {seed_key});
    const auto [at, is_new] = place.try_emplace(values, groups.size());
    if (is_new) groups.push_back({std::move(values), {}});
    groups[at->second].second.push_back(&row);
  }
  std::vector<sweep_summary> settings;
  for (const auto& [values, group] : groups)
    settings.push_back(summary_of(values, group, s.target.has_value()));
  return settings;
}

std::vector<sweep_summary> tuned(const sweep& s, std::span<const sweep_summary> settings, judged_figure f) {
  std::vector<sweep_summary> methods;
  std::map<std::vector<std::string>, std::size_t> place;
  for (const sweep_summary& m : settings) {
    const auto [at, is_new] = place.try_emplace(values_without(s, m.values, {s.tune}), methods.size());
    if (is_new)
      methods.push_back(m);
    else if (m.better_than(methods[at->second], f))
      methods[at->second] = m;
  }
  add_speed_ups(s, methods);
  return methods;
}

std::optional<std::size_t> median_cell(const sweep_summary& m, std::span<const sweep_row> rows,
                                       judged_figure f) {
  std::optional<std::size_t> nearest;
  double distance = for_ever;
  for (const sweep_row& row : rows) {
    const std::optional<double>& figure = row.*member_of(f);
    if (!row.completed() || !figure || !m.judged(f) || std::ranges::find(m.cells, row.cell) == m.cells.end())
      continue;
    const double away = std::abs(*figure - m.judged(f)->median);
    if (nearest && !(away < distance)) continue;
    nearest = row.cell;
    distance = away;
  }
  return nearest;
}

std::string summary_csv(const sweep& s, std::span<const sweep_summary> methods) {
  std::string text;
  for (const sweep_axis& axis : s.grid)
    if (axis.key != seed_key) text += csv_field(axis.key) + ',';
  text += "runs,completed,reached_target";
  for (const char* figure : {"test_accuracy", "test_rmse", "test_loss", "final_loss", "virtual_seconds",
                             "staleness_mean", "time_to_target"})
    for (const char* part : {"median", "q1", "q3"}) text += std::string(",") + figure + '_' + part;
  text += ",speed_up,missing_runs\n";
  for (const sweep_summary& m : methods) {
    for (std::size_t a = 0; a < s.grid.size(); ++a)
      if (s.grid[a].key != seed_key) text += csv_field(m.values[a]) + ',';
    text +=
        std::to_string(m.cells.size()) + ',' + std::to_string(m.completed) + ',' + std::to_string(m.reached);
    for (const auto& q : {m.test_accuracy, m.test_rmse, m.test_loss, m.final_loss, m.virtual_seconds,
                          m.staleness_mean, m.time_to_target})
      text += fields_of(q);
    text += ',' + (m.speed_up ? csv_field(*m.speed_up) : std::string());
    text += ',' + std::to_string(missing_of(s, m)) + '\n';
  }
  return text;
}

} // namespace mailgrad::lab
