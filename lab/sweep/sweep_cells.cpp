#include <mailgrad/lab/sweep/sweep_cells.hpp>

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/tensor/device.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace mailgrad::lab {

namespace {

void read_target(const std::optional<sweep_target>& target, const std::vector<curve_point>& curve,
                 sweep_row& row) {
  if (!target) return;
  for (const curve_point& p : curve) {
    const std::optional<double> figure = figure_of(p, target->figure);
    if (!figure || !target->reached_by(*figure)) continue;
    row.time_to_target = p.time;
    row.updates_to_target = static_cast<double>(p.updates);
    return;
  }
}

void read_report(const training_report& r, sweep_row& row) {
  row.ended = r.ended;
  row.why = r.why;
  row.steps = r.steps;
  row.updates = r.updates;
  row.samples = r.samples;
  row.final_loss = r.final_loss;
  row.test_loss = r.test_loss;
  row.test_accuracy = r.test_accuracy;
  row.test_rmse = r.test_rmse;
  row.virtual_seconds = r.wall_seconds;
  row.staleness_mean = r.staleness.mean();
  row.staleness_p99 = r.staleness.empty() ? 0 : r.staleness.quantile(0.99);
  row.discarded = r.ledger.discarded_in_all();
  row.parameters_sha256 = r.parameters_sha256;
}

curve_point point_of(std::size_t cell, const virtual_test& t) {
  return {cell,         in_seconds(t.time), t.steps,           t.updates,
          t.train_loss, t.result.loss,      t.result.accuracy, t.result.rmse};
}

curve_point end_of(const sweep_row& row) {
  return {row.cell,       row.virtual_seconds, row.steps,         row.updates,
          row.final_loss, row.test_loss,       row.test_accuracy, row.test_rmse};
}

void train(cell_terms t, cell_outcome& made) {
  t.how.on_test = [&](const virtual_test& test) { made.curve.push_back(point_of(made.row.cell, test)); };
  const std::function<bool()> stop = t.how.stop;
  virtual_run run(std::move(t.model), std::move(t.data), std::move(t.options), std::move(t.how));
  run.run();
  read_report(run.report(stop), made.row);
  if (made.row.completed() && !made.row.why.empty()) made.row.ended = "stopped"; // in the test at its end
  if (made.row.completed()) made.curve.push_back(end_of(made.row));
}

double number_in(const sweep_setting& s) {
  const auto number = parse_number(s.value);
  if (!number) throw std::invalid_argument(fmt::format("{}: '{}' is no number", s.key, s.value));
  return *number;
}

template <class Whole = std::uint64_t>
Whole whole_in(const sweep_setting& s) {
  const auto number = parse_whole(s.value);
  if (!number || *number > std::numeric_limits<Whole>::max())
    throw std::invalid_argument(fmt::format("{}: '{}' is no whole number", s.key, s.value));
  return static_cast<Whole>(*number);
}

struct known_setting {
  std::string_view key;
  void (*take)(cell_terms& t, const sweep_setting& s);
};

/// Those of a program's sweep, named as options of `mailgrad lab run`. A rule comes before its learning rate.
constexpr std::array<known_setting, 15> known_settings{{
    {"batch", [](cell_terms& t, const sweep_setting& s) { t.options.batch = whole_in(s); }},
    {"clip-norm",
     [](cell_terms& t, const sweep_setting& s) { t.options.optimizer.clip_norm = number_in(s); }},
    {"cure", [](cell_terms& t, const sweep_setting& s) { t.options.cure = s.value; }},
    {"delays", [](cell_terms& t, const sweep_setting& s) { t.options.delays = s.value; }},
    {"delays-seed", [](cell_terms& t, const sweep_setting& s) { t.options.delays_seed = whole_in(s); }},
    {"epochs", [](cell_terms& t, const sweep_setting& s) { t.options.epochs = whole_in(s); }},
    {"latency", [](cell_terms& t, const sweep_setting& s) { t.how.links.latency = s.value; }},
    {"local-steps", [](cell_terms& t, const sweep_setting& s) { t.options.local_steps = whole_in(s); }},
    {"optimizer",
     [](cell_terms& t, const sweep_setting& s) { t.options.optimizer = parse_optimizer(s.value); }},
    {"lr", [](cell_terms& t, const sweep_setting& s) { t.options.optimizer.learning_rate = number_in(s); }},
    {"policy", [](cell_terms& t, const sweep_setting& s) { t.options.policy = s.value; }},
    {"seed", [](cell_terms& t, const sweep_setting& s) { t.options.seed = whole_in(s); }},
    {"shards", [](cell_terms& t, const sweep_setting& s) { t.options.shards = whole_in<std::uint32_t>(s); }},
    {"steps", [](cell_terms& t, const sweep_setting& s) { t.options.steps = whole_in(s); }},
    {"workers", [](cell_terms& t, const sweep_setting& s) { t.how.workers = whole_in<std::uint32_t>(s); }},
}};

/// Those of a cell, of a sweep that a program has made.
cell_terms with_settings(const sweep& s, std::size_t cell, cell_terms t) {
  const std::vector<sweep_setting> settings = s.settings_of(cell);
  for (const sweep_setting& x : settings)
    if (std::ranges::find(known_settings, x.key, &known_setting::key) == known_settings.end())
      throw std::invalid_argument(
          fmt::format("a sweep of a program has no setting '{}'; set it in the options", x.key));
  for (const known_setting& known : known_settings)
    for (const sweep_setting& x : settings)
      if (x.key == known.key) known.take(t, x);
  t.how.test_every = steps_between_tests(virtual_run::plan(t.model, t.data, t.options, t.how), s.tests);
  return t;
}

} // namespace

std::optional<cell_outcome> run_cell(const sweep& s, std::size_t cell,
                                     const std::function<cell_terms()>& make) {
  const machine_time time;
  const instant begun = time.now();
  cell_outcome made;
  sweep_row& row = made.row;
  row.cell = cell;
  row.values = s.values_of(cell);
  const provenance here = this_program();
  row.version = here.version;
  row.processor = here.processor;
  try {
    train(make(), made);
  } catch (const std::exception& why) {
    row.ended = "failed";
    row.why = why.what();
  }
  if (row.ended == "stopped") return std::nullopt;
  row.real_seconds = in_seconds(time.now() - begun);
  read_target(s.target, made.curve, row);
  return made;
}

std::vector<sweep_row> sweep::run(const model_function& model, const shared_data& data,
                                  const training_options& options, const virtual_run_options& how) const {
  cell_terms common{model, data, options, how};
  if (options.delays.empty() && !how.delays) common.options.delays = "exp";
  if (!how.stop) common.how.stop = [] { return false; };
  std::map<std::size_t, cell_terms> terms;
  for (const std::size_t cell : kept_cells()) terms.emplace(cell, with_settings(*this, cell, common));
  const std::vector<std::size_t> cells = kept_cells();
  std::mutex mutex;
  std::vector<sweep_row> rows;
  run_on_threads(
      cells, static_cast<unsigned>(cores_of_process().count()),
      [&](std::size_t cell) {
        std::optional<cell_outcome> made = run_cell(*this, cell, [&] { return terms.at(cell); });
        const std::lock_guard guard(mutex);
        if (made) rows.push_back(std::move(made->row));
      },
      common.how.stop);
  std::ranges::sort(rows, {}, &sweep_row::cell);
  return rows;
}

} // namespace mailgrad::lab
