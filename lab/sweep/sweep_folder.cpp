#include <mailgrad/lab/sweep/sweep_folder.hpp>

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/tensor/device.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <concepts>
#include <exception>
#include <iterator>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

namespace mailgrad::lab {

std::string csv_field(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  if (line.find_first_of(",\"") == std::string::npos) return line;
  std::string quoted = "\"";
  for (const char c : line) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string csv_field(double number) { return std::isnan(number) ? "" : fmt::format("{}", number); }

namespace {

/// The fields of a line, without their quotes; none if a quote is not closed.
std::optional<std::vector<std::string>> csv_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool doubled = quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"';
    if (doubled)
      fields.back() += line[i++];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  if (quoted) return std::nullopt;
  return fields;
}

/// Calls `f` with the name and the member of each column, in their order. An axis is called as its value.
template <class Row, class F>
requires std::same_as<std::remove_const_t<Row>, sweep_row>
void columns_of(Row& r, F f) {
  f("cell", r.cell);
  for (auto& value : r.values) f(value, value);
  f("ended", r.ended), f("why", r.why), f("steps", r.steps), f("updates", r.updates), f("samples", r.samples);
  f("final_loss", r.final_loss), f("test_loss", r.test_loss), f("test_accuracy", r.test_accuracy);
  f("test_rmse", r.test_rmse), f("virtual_seconds", r.virtual_seconds), f("real_seconds", r.real_seconds);
  f("staleness_mean", r.staleness_mean), f("staleness_p99", r.staleness_p99), f("discarded", r.discarded);
  f("time_to_target", r.time_to_target), f("updates_to_target", r.updates_to_target);
  f("parameters_sha256", r.parameters_sha256), f("version", r.version), f("commit", r.commit);
  f("command", r.command), f("processor", r.processor), f("date", r.date);
}

template <class Point, class F>
requires std::same_as<std::remove_const_t<Point>, curve_point>
void columns_of(Point& p, F f) {
  f("cell", p.cell), f("time", p.time), f("steps", p.steps), f("updates", p.updates);
  f("train_loss", p.train_loss), f("test_loss", p.test_loss), f("test_accuracy", p.test_accuracy);
  f("test_rmse", p.test_rmse);
}

std::string field_of(const std::string& x) { return csv_field(x); }
std::string field_of(double x) { return csv_field(x); }
std::string field_of(std::uint64_t x) { return std::to_string(x); }
std::string field_of(const std::optional<double>& x) { return x ? csv_field(*x) : ""; }

template <class Row>
std::string header_of(const Row& r) {
  std::string line;
  columns_of(
      r, [&](std::string_view name, const auto&) { line += (line.empty() ? "" : ",") + csv_field(name); });
  return line;
}

template <class Row>
std::string line_of(const Row& r) {
  std::string line;
  columns_of(r, [&](std::string_view, const auto& member) {
    line += (line.empty() ? "" : ",") + field_of(member); // the first is a number
  });
  return line;
}

bool read(const std::string& field, std::string& to) { return to = field, true; }
template <class Number>
bool read(const std::string& field, Number& to) {
  const auto found = number_of_all<Number>(field);
  to = found.value_or(to);
  return found || (std::is_same_v<Number, double> && field.empty());
}
bool read(const std::string& field, std::optional<double>& to) {
  return field.empty() || (to = number_of_all<double>(field));
}

/// Fills a row whose axes have been counted.
template <class Row>
std::optional<Row> read_line(std::string_view line, Row row) {
  const auto fields = csv_fields(line);
  std::size_t next = 0;
  bool fits = fields.has_value();
  columns_of(row, [&](std::string_view, auto& member) {
    fits = fits && next < fields->size() && read((*fields)[next++], member);
  });
  return fits && next == fields->size() ? std::optional(std::move(row)) : std::nullopt;
}

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr const char* identity_name = "sweep.json";
constexpr const char* rows_name = "sweep.csv";
constexpr const char* curves_name = "curves.csv";

/// The lines of a file that end with a line feed, without it; none if there is no such file.
std::vector<std::string> whole_lines_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line) && !in.eof();) lines.push_back(line);
  return lines;
}

void replace(const fs::path& file, const std::string& content) {
  replaced_file out(file.string());
  out << content;
  if (const int failure = out.keep(); failure != 0 || !out)
    throw std::system_error(failure != 0 ? failure : EIO, std::generic_category(), file.string());
}

std::string identity_of(const sweep& s, const sweep_origin& origin) {
  return json{{"program", origin.program}, {"content", origin.content}, {"sweep", json::parse(to_json(s))}}
             .dump(2) +
         '\n';
}

/// The values of an object as texts.
std::map<std::string, std::string> texts_in(const json& object) {
  std::map<std::string, std::string> texts;
  if (object.is_object())
    for (const auto& [key, value] : object.items())
      texts[key] = value.is_string() ? value.get<std::string>() : "";
  return texts;
}

/// "with another data=ratings.csv (SHA-256 ab..., this is cd...)", of the first that differs.
std::string difference(const std::map<std::string, std::string>& was,
                       const std::map<std::string, std::string>& is) {
  for (const auto& [key, sum] : is)
    if (const auto before = was.find(key); before == was.end() || before->second != sum)
      return fmt::format("with another {} (SHA-256 {}, this is {})", key,
                         before == was.end() ? "unknown" : before->second, sum);
  return "with other files";
}

fs::path made(fs::path folder) {
  std::error_code why;
  fs::create_directories(folder, why);
  if (fs::is_directory(folder)) return folder;
  throw std::invalid_argument(fmt::format("'{}' is no folder, and none can be made: {}", folder.string(),
                                          why ? why.message() : "there is a file of that name"));
}

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

std::optional<double> figure_of(const curve_point& p, std::string_view figure) {
  std::optional<double> found;
  columns_of(p, [&](std::string_view name, const auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, std::optional<double>>)
      if (name == figure) found = member;
  });
  return found;
}

std::string row_header(const std::vector<std::string>& axes) {
  sweep_row any;
  any.values = axes;
  return header_of(any);
}

std::string to_csv(const sweep_row& row) { return line_of(row); }

std::optional<sweep_row> row_of(std::string_view line, std::size_t axes) {
  sweep_row row;
  row.values.resize(axes);
  return read_line(line, std::move(row));
}

std::string curve_header() { return header_of(curve_point{}); }

std::string to_csv(const curve_point& p) { return line_of(p); }

std::optional<curve_point> curve_point_of(std::string_view line) { return read_line(line, curve_point{}); }

sweep_folder::sweep_folder(fs::path folder, const sweep& s, const sweep_origin& origin, old_rows what)
    : folder_(made(std::move(folder))), cells_(s.kept_cells()),
      lock_(folder_, "another process runs a sweep there") {
  const std::string identity = identity_of(s, origin);
  if (what == old_rows::set_aside || !fs::exists(folder_ / rows_name))
    keep_older(std::array{folder_ / identity_name, folder_ / rows_name, folder_ / curves_name});
  require_same(identity);
  read_rows(s);
  read_curves();
  rewrite(s, identity);
  open_to_append();
}

void sweep_folder::require_same(const std::string& identity) const {
  const fs::path rows = folder_ / rows_name;
  if (!fs::exists(rows)) return;
  std::ifstream in(folder_ / identity_name, std::ios::binary);
  const std::string found{std::istreambuf_iterator<char>(in), {}};
  if (found == identity) return;
  const json was = json::parse(found, nullptr, false), is = json::parse(identity);
  const auto same = [&](const char* key) { return was.is_object() && was.value(key, json()) == is[key]; };
  if (same("sweep") && !same("program"))
    throw rows_of_another(fmt::format("{} has rows of another program ({}, this is {})", rows.string(),
                                      was.value("program", "unknown"), is["program"].get<std::string>()));
  if (same("sweep"))
    throw rows_of_another(
        fmt::format("{} has rows {}", rows.string(),
                    difference(texts_in(was.value("content", json())), texts_in(is["content"]))));
  throw rows_of_another(fmt::format("{} has rows of another sweep", rows.string()));
}

void sweep_folder::read_rows(const sweep& s) {
  const fs::path file = folder_ / rows_name;
  const std::vector<std::string> lines = whole_lines_of(file);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::optional<sweep_row> row = row_of(lines[i], s.grid.size());
    if (!row || !std::ranges::binary_search(cells_, row->cell) || row->values != s.values_of(row->cell))
      throw std::invalid_argument(fmt::format("{}: line {} is no row of this sweep", file.string(), i + 1));
    if (!row->failed()) rows_.push_back(*row);
  }
}

void sweep_folder::read_curves() {
  const std::vector<std::size_t> without = missing();
  for (const std::string& line : whole_lines_of(folder_ / curves_name))
    if (const std::optional<curve_point> p = curve_point_of(line);
        p && std::ranges::binary_search(cells_, p->cell) && !std::ranges::binary_search(without, p->cell))
      curves_.push_back(*p);
}

void sweep_folder::rewrite(const sweep& s, const std::string& identity) const {
  std::vector<std::string> axes;
  for (const sweep_axis& a : s.grid) axes.push_back(a.key);
  std::string rows = row_header(axes) + '\n', curves = curve_header() + '\n';
  for (const sweep_row& row : rows_) rows += to_csv(row) + '\n';
  for (const curve_point& p : curves_) curves += to_csv(p) + '\n';
  replace(folder_ / identity_name, identity);
  replace(folder_ / curves_name, curves);
  replace(folder_ / rows_name, rows);
}

void sweep_folder::open_to_append() {
  const std::array files{std::pair{&row_file_, rows_name}, std::pair{&curve_file_, curves_name}};
  for (const auto& [file, name] : files) {
    file->open(folder_ / name, std::ios::app | std::ios::binary);
    if (!*file) throw std::system_error(errno, std::generic_category(), (folder_ / name).string());
  }
}

void sweep_folder::add(const sweep_row& row, std::span<const curve_point> curve) {
  std::string points;
  for (const curve_point& p : curve) points += to_csv(p) + '\n';
  write(curve_file_, points);
  write(row_file_, to_csv(row) + '\n');
  rows_.push_back(row);
  curves_.insert(curves_.end(), curve.begin(), curve.end());
}

void sweep_folder::write(std::ofstream& to, const std::string& lines) const {
  errno = 0;
  to << lines << std::flush;
  if (!to)
    throw std::runtime_error(
        fmt::format("{} cannot be written: {}", folder_.string(), std::generic_category().message(errno)));
}

std::vector<sweep_row> sweep_folder::rows() const {
  std::vector<sweep_row> sorted = rows_;
  std::ranges::sort(sorted, {}, &sweep_row::cell);
  return sorted;
}

std::vector<std::size_t> sweep_folder::missing() const {
  std::vector<std::size_t> done, cells;
  for (const sweep_row& row : rows()) done.push_back(row.cell);
  std::ranges::set_difference(cells_, done, std::back_inserter(cells));
  return cells;
}

void run_on_threads(std::span<const std::size_t> cells, unsigned threads,
                    const std::function<void(std::size_t)>& run, const std::function<bool()>& stop) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr why;
  const auto work = [&] {
    while (!failed && !stop()) {
      const std::size_t at = next++;
      if (at >= cells.size()) return;
      try {
        run(cells[at]);
      } catch (...) {
        failed = true;
        const std::lock_guard guard(mutex);
        if (!why) why = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t n = std::min<std::size_t>(std::max(threads, 1U), cells.size());
    for (std::size_t i = 1; i < n; ++i) others.emplace_back(work);
    work();
  }
  if (why) std::rethrow_exception(why);
}

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
