#include <mailgrad/lab/sweep/sweep_summary.hpp>

#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
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

constexpr double for_ever = std::numeric_limits<double>::infinity();

/// A figure of a run by which methods are judged.
struct figure_kind {
  std::string_view name;
  std::optional<double> sweep_row::*of_row;
  std::optional<quartiles> sweep_summary::*of_method;
};

/// In the order of judged_figure.
constexpr figure_kind figure_kinds[] = {
    {"test accuracy", &sweep_row::test_accuracy, &sweep_summary::test_accuracy},
    {"test RMSE", &sweep_row::test_rmse, &sweep_summary::test_rmse},
    {"test loss", &sweep_row::test_loss, &sweep_summary::test_loss},
    {"loss of the last steps", &sweep_row::final_loss, &sweep_summary::final_loss}};
constexpr judged_figure judged_figures[] = {judged_figure::test_accuracy, judged_figure::test_rmse,
                                            judged_figure::test_loss, judged_figure::final_loss};
static_assert(std::size(figure_kinds) == std::size(judged_figures));

const figure_kind& kind_of(judged_figure f) noexcept { return figure_kinds[static_cast<std::size_t>(f)]; }

double worst(judged_figure f) { return f == judged_figure::test_accuracy ? -for_ever : for_ever; }

using row_group = std::vector<const sweep_row*>;

std::optional<quartiles> quartiles_of_figure(const row_group& rows, judged_figure f) {
  std::vector<double> numbers;
  bool known = false;
  for (const sweep_row* row : rows) {
    const std::optional<double>& figure = row->*kind_of(f).of_row;
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
  for (const judged_figure f : judged_figures) m.*kind_of(f).of_method = quartiles_of_figure(rows, f);
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

constexpr std::pair<const char*, std::optional<quartiles> sweep_summary::*> csv_figures[] = {
    {"test_accuracy", &sweep_summary::test_accuracy},
    {"test_rmse", &sweep_summary::test_rmse},
    {"test_loss", &sweep_summary::test_loss},
    {"final_loss", &sweep_summary::final_loss},
    {"virtual_seconds", &sweep_summary::virtual_seconds},
    {"staleness_mean", &sweep_summary::staleness_mean},
    {"time_to_target", &sweep_summary::time_to_target}};

std::string fields_of(const std::optional<quartiles>& q) {
  const auto field = [](double x) { return ',' + (std::isfinite(x) ? csv_field(x) : std::string()); };
  return q ? field(q->median) + field(q->low) + field(q->high) : ",,,";
}

/// Runs of a setting that have no row yet.
std::size_t missing_of(const sweep& s, const sweep_summary& m) {
  const auto of_setting = std::ranges::count_if(s.kept_cells(), [&](std::size_t cell) {
    return values_without(s, s.values_of(cell), {seed_key}) == m.values;
  });
  return static_cast<std::size_t>(of_setting) - m.cells.size();
}

constexpr std::size_t most_series = 6;

/// What figures are made from.
struct swept {
  const sweep& s;
  std::span<const sweep_row> rows;
  std::span<const curve_point> curves;
  judged_figure judged;
  std::vector<sweep_summary> settings;
  std::vector<sweep_summary> methods; ///< tuned
};

/// The settings of one series, by their words.
struct series_group {
  std::string name;
  std::vector<const sweep_summary*> members;
  const sweep_summary* best;
};

bool varies(const sweep& s, std::string_view key) {
  const auto at = s.axis(key);
  return at && s.grid[*at].values.size() > 1;
}

/// Groups by all axes but these, in the order of the grid.
std::vector<series_group> groups_of(const swept& r, std::span<const sweep_summary> settings,
                                    std::initializer_list<std::string_view> without) {
  std::vector<series_group> groups;
  for (const sweep_summary& m : settings) {
    const std::string name = words_of(r.s, m, without);
    auto at = std::ranges::find(groups, name, &series_group::name);
    if (at == groups.end()) at = groups.insert(at, {name, {}, &m});
    at->members.push_back(&m);
    if (m.better_than(*at->best, r.judged)) at->best = &m;
  }
  return groups;
}

/// Takes the best groups, in their order, and returns a sentence on the others.
std::string keep_best(std::vector<series_group>& groups, std::size_t most, judged_figure f) {
  if (groups.size() <= most) return {};
  std::vector<const series_group*> ranked;
  for (const series_group& g : groups) ranked.push_back(&g);
  std::ranges::stable_sort(ranked,
                           [&](const auto* a, const auto* b) { return a->best->better_than(*b->best, f); });
  std::vector<std::string> left_out;
  for (std::size_t i = most; i < ranked.size(); ++i) left_out.push_back(ranked[i]->name);
  std::erase_if(groups,
                [&](const series_group& g) { return std::ranges::find(left_out, g.name) != left_out.end(); });
  return fmt::format(" Left out, since they did no better: {}.", fmt::join(left_out, "; "));
}

/// An axis of the grid as an axis of a figure: of numbers if all its values are, else of names.
class grid_axis {
public:
  grid_axis(const sweep& s, std::size_t at, bool doubling) : at_(at), values_(s.grid[at].values) {
    axis_.label = s.grid[at].key;
    double least = std::numeric_limits<double>::infinity(), most = -least;
    for (const std::string& text : values_) {
      const double x = parse_number(text).value_or(std::numeric_limits<double>::quiet_NaN());
      named_ = named_ || !std::isfinite(x);
      least = std::min(least, x);
      most = std::max(most, x);
    }
    if (named_)
      axis_.marks = values_;
    else if (least > 0 && most >= (doubling ? 2 : 4) * least)
      axis_.scale = doubling ? axis_scale::doubling : axis_scale::logarithmic;
  }

  const figure_axis& axis() const noexcept { return axis_; }
  double x_of(const sweep_summary& m) const {
    const std::string& value = m.values[at_];
    if (!named_) return parse_number(value).value_or(0);
    return static_cast<double>(std::ranges::find(values_, value) - values_.begin()) + 1;
  }

private:
  std::size_t at_;
  std::vector<std::string> values_;
  figure_axis axis_;
  bool named_ = false;
};

using summary_figure = std::function<std::optional<quartiles>(const sweep_summary&)>;

/// Unless the median is infinite.
void add_point(std::vector<figure_point>& points, double x, const std::optional<quartiles>& y) {
  if (y && std::isfinite(y->median)) points.push_back({x, y->median, 0, y->low, y->high});
}

std::vector<figure_point> points_of(const series_group& g, const grid_axis& x, const summary_figure& y) {
  std::vector<figure_point> points;
  for (const sweep_summary* m : g.members) add_point(points, x.x_of(*m), y(*m));
  std::ranges::sort(points, {}, &figure_point::x);
  return points;
}

std::string format_medians(const swept& r) {
  const auto seeds = r.s.axis(seed_key);
  const std::size_t n = seeds ? r.s.grid[*seeds].values.size() : 1;
  if (n == 1) return "One run each. Runs that did not complete are missing.";
  return fmt::format(
      "Medians over {} seeds; bars reach from quartile to quartile. A run that did not complete "
      "counts as the worst.",
      n);
}

/// A figure of summaries over one axis of the grid.
figure over_axis(const swept& r, std::string name, std::string title, const grid_axis& x, figure_axis y,
                 std::vector<series_group> groups, const summary_figure& of, std::size_t most = most_series) {
  figure f(std::move(name), std::move(title), format_medians(r), x.axis(), std::move(y));
  f.caption += keep_best(groups, most, r.judged);
  for (const series_group& g : groups) f.series.push_back({g.name, series_look::joined, points_of(g, x, of)});
  return f;
}

std::string with_tuned(const swept& r) {
  return r.s.tune.empty() ? std::string() : fmt::format(", each with its best {}", r.s.tune);
}

figure by_tuned_value(const swept& r) {
  const std::string judged(name_of(r.judged));
  return over_axis(r, r.s.tune, fmt::format("{} by {}", judged, r.s.tune),
                   grid_axis(r.s, *r.s.axis(r.s.tune), false), {judged}, groups_of(r, r.settings, {r.s.tune}),
                   [&](const sweep_summary& m) { return m.judged(r.judged); });
}

/// A figure of tuned methods over the number of workers.
figure over_workers(const swept& r, std::string name, std::string title, figure_axis y,
                    const summary_figure& of, std::size_t most = most_series) {
  return over_axis(r, std::move(name), std::move(title) + with_tuned(r),
                   grid_axis(r.s, *r.s.axis(workers_key), true), std::move(y),
                   groups_of(r, r.methods, {r.s.tune, workers_key}), of, most);
}

figure by_workers(const swept& r) {
  const std::string judged(name_of(r.judged));
  return over_workers(r, "workers", judged + " by number of workers", {judged},
                      [&](const sweep_summary& m) { return m.judged(r.judged); });
}

std::string format_target(const swept& r) {
  std::string figure = r.s.target->figure;
  std::ranges::replace(figure, '_', ' ');
  return fmt::format("{} of {:g}", figure, r.s.target->value);
}

figure time_to_target(const swept& r) {
  figure f = over_workers(r, "time-to-target", "time to a " + format_target(r),
                          {"virtual time to target [s]", axis_scale::logarithmic},
                          [](const sweep_summary& m) { return m.time_to_target; });
  f.caption += " Where more than half of the runs miss the target, there is no point.";
  return f;
}

/// The ideal line is one of the series.
figure speed_up(const swept& r) {
  const grid_axis x(r.s, *r.s.axis(workers_key), true);
  const auto of = [](const sweep_summary& m) {
    return m.speed_up ? std::optional(quartiles{*m.speed_up, *m.speed_up, *m.speed_up}) : std::nullopt;
  };
  figure f = over_workers(r, "speed-up", "speed-up to a " + format_target(r),
                          {"speed-up of the median time to target", x.axis().scale}, of, most_series - 1);
  f.caption = "Against the fewest workers of the same method." + f.caption.substr(f.caption.find('.') + 1);
  if (!r.s.tune.empty())
    f.caption += fmt::format(
        " Points of one line may have different values of {}, which makes a difference too.", r.s.tune);
  figure_series ideal{"in proportion to workers", series_look::line};
  for (const sweep_summary& m : r.methods) ideal.add(x.x_of(m), x.x_of(m));
  std::ranges::sort(ideal.points, {}, &figure_point::x);
  if (!ideal.points.empty() && ideal.points.front().x > 0) {
    const double least = ideal.points.front().x;
    for (figure_point& p : ideal.points) p.y /= least;
    f.series.push_back(std::move(ideal));
  }
  return f;
}

figure by_method(const swept& r) {
  const std::string judged(name_of(r.judged));
  figure f("methods", judged + " by method", format_medians(r), {"method"}, {judged});
  figure_series s{"median"};
  std::vector<series_group> groups = groups_of(r, r.methods, {r.s.tune});
  f.caption += keep_best(groups, most_series, r.judged);
  for (const series_group& g : groups) {
    f.x.marks.push_back(g.name);
    add_point(s.points, static_cast<double>(f.x.marks.size()), g.best->judged(r.judged));
  }
  f.series.push_back(std::move(s));
  return f;
}

/// Of the test samples, if any run was tested on some.
figure loss_by_time(const swept& r) {
  const bool tested =
      std::ranges::any_of(r.curves, [](const curve_point& p) { return p.test_loss.has_value(); });
  const std::string loss = tested ? "test_loss" : "train_loss",
                    words = tested ? "test loss" : "training loss";
  figure f("loss-time", fmt::format("{} by virtual time{}", words, with_tuned(r)),
           "Of each method the run whose final figure is next to the median.", {"virtual time [s]"}, {words});
  std::vector<series_group> groups = groups_of(r, r.methods, {r.s.tune});
  f.caption += keep_best(groups, most_series, r.judged);
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const series_group& g : groups) {
    figure_series series{g.name, series_look::joined};
    const std::optional<std::size_t> cell = median_cell(*g.best, r.rows, r.judged);
    for (const curve_point& p : r.curves)
      if (const auto y = figure_of(p, loss); cell && p.cell == *cell && y) {
        series.add(p.time, *y);
        least = std::min(least, *y);
        most = std::max(most, *y);
      }
    f.series.push_back(std::move(series));
  }
  if (least > 0 && most > 5 * least) f.y.scale = axis_scale::logarithmic;
  return f;
}

/// Whether any method has a speed-up besides that of its fewest workers, which is 1.
bool has_speed_ups(const swept& r) {
  return std::ranges::any_of(r.methods, [&](const sweep_summary& m) {
    return m.speed_up && std::ranges::any_of(r.methods, [&](const sweep_summary& other) {
             return &other != &m && other.speed_up &&
                    words_of(r.s, other, {r.s.tune, workers_key}) ==
                        words_of(r.s, m, {r.s.tune, workers_key});
           });
  });
}

/// A value that says by itself what it is, such as a policy, or else with its key. A flag is its key.
std::string format_value(const std::string& key, const std::string& value) {
  if (value == "true") return key;
  if (value == "false") return "without " + key;
  const bool speaks = !parse_number(value) && value != "none";
  return speaks ? value : key + ' ' + value;
}

bool has_points(const figure& f) {
  return std::ranges::any_of(f.series, [](const figure_series& s) { return !s.points.empty(); });
}

} // namespace

quartiles quartiles_of(std::vector<double> numbers) {
  if (numbers.empty()) throw std::invalid_argument("quartiles: there is no number");
  std::ranges::sort(numbers);
  return {quantile(numbers, 0.25), quantile(numbers, 0.5), quantile(numbers, 0.75)};
}

judged_figure judged_by(std::span<const sweep_row> rows) {
  for (const judged_figure f : judged_figures)
    if (std::ranges::any_of(rows, [&](const sweep_row& row) { return (row.*kind_of(f).of_row).has_value(); }))
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
    const std::optional<double>& figure = row.*kind_of(f).of_row;
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
  for (const auto& [name, of] : csv_figures)
    for (const char* part : {"median", "q1", "q3"}) text += fmt::format(",{}_{}", name, part);
  text += ",speed_up,missing_runs\n";
  for (const sweep_summary& m : methods) {
    for (std::size_t a = 0; a < s.grid.size(); ++a)
      if (s.grid[a].key != seed_key) text += csv_field(m.values[a]) + ',';
    text += fmt::format("{},{},{}", m.cells.size(), m.completed, m.reached);
    for (const auto& [name, of] : csv_figures) text += fields_of(m.*of);
    text += fmt::format(",{},{}\n", m.speed_up ? csv_field(*m.speed_up) : "", missing_of(s, m));
  }
  return text;
}

std::string words_of(const sweep& s, const sweep_summary& m,
                     std::initializer_list<std::string_view> without) {
  std::string words;
  for (std::size_t a = 0; a < s.grid.size(); ++a) {
    const sweep_axis& axis = s.grid[a];
    if (axis.values.size() == 1 || axis.key == seed_key ||
        std::ranges::find(without, axis.key) != without.end())
      continue;
    words += (words.empty() ? "" : ", ") + format_value(axis.key, m.values[a]);
  }
  return words.empty() ? "all runs" : words;
}

std::vector<figure> figures_of(const sweep& s, std::span<const sweep_row> rows,
                               std::span<const curve_point> curves) {
  swept r{s, rows, curves, judged_by(rows), summaries_of(s, rows), {}};
  r.methods = tuned(s, r.settings, r.judged);
  std::vector<figure> figures;
  const bool workers = varies(s, workers_key) && s.tune != workers_key;
  if (varies(s, s.tune)) figures.push_back(by_tuned_value(r));
  if (workers) figures.push_back(by_workers(r));
  if (workers && s.target) figures.push_back(time_to_target(r));
  if (workers && s.target && has_speed_ups(r)) figures.push_back(speed_up(r));
  if (!workers && !varies(s, s.tune)) figures.push_back(by_method(r));
  figures.push_back(loss_by_time(r));
  std::erase_if(figures, [](const figure& f) { return !has_points(f); });
  return figures;
}

} // namespace mailgrad::lab
