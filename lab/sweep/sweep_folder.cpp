#include <mailgrad/lab/sweep/sweep_folder.hpp>

#include <mailgrad/files/replaced_file.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <exception>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>
#include <type_traits>

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

namespace {

/// Calls `f` with the name and the member of each column behind the axes, in their order.
template <class Row, class F>
void columns_of(Row& r, F f) {
  f("ended", r.ended), f("why", r.why), f("steps", r.steps), f("updates", r.updates), f("samples", r.samples);
  f("final_loss", r.final_loss), f("test_loss", r.test_loss), f("test_accuracy", r.test_accuracy);
  f("test_rmse", r.test_rmse), f("virtual_seconds", r.virtual_seconds), f("real_seconds", r.real_seconds);
  f("staleness_mean", r.staleness_mean), f("staleness_p99", r.staleness_p99), f("discarded", r.discarded);
  f("time_to_target", r.time_to_target), f("updates_to_target", r.updates_to_target);
  f("parameters_sha256", r.parameters_sha256), f("version", r.version), f("commit", r.commit);
  f("command", r.command), f("processor", r.processor), f("date", r.date);
}

template <class Point, class F>
void curve_columns_of(Point& p, F f) {
  f("cell", p.cell), f("time", p.time), f("steps", p.steps), f("updates", p.updates);
  f("train_loss", p.train_loss), f("test_loss", p.test_loss), f("test_accuracy", p.test_accuracy);
  f("test_rmse", p.test_rmse);
}

std::string field_of(const std::string& x) { return csv_field(x); }
std::string field_of(double x) { return csv_field(x); }
std::string field_of(std::uint64_t x) { return std::to_string(x); }
std::string field_of(const std::optional<double>& x) { return x ? csv_field(*x) : ""; }

template <class Number>
bool read_number(const std::string& field, Number& to) {
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), to);
  return error == std::errc{} && end == field.data() + field.size();
}

bool read(const std::string& field, std::string& to) { return to = field, true; }
bool read(const std::string& field, std::uint64_t& to) { return read_number(field, to); }
bool read(const std::string& field, double& to) { return field.empty() || read_number(field, to); }
bool read(const std::string& field, std::optional<double>& to) {
  if (field.empty()) return true;
  return read_number(field, to.emplace());
}

/// Takes fields one by one, until one does not fit.
class field_reader {
public:
  explicit field_reader(std::string_view line) : fields_(csv_fields(line)) {}

  template <class T>
  void take(T& to) {
    fits_ = fits_ && fields_ && next_ < fields_->size() && read((*fields_)[next_], to);
    ++next_;
  }
  bool all_fitted() const { return fits_ && fields_ && next_ == fields_->size(); }

private:
  std::optional<std::vector<std::string>> fields_;
  std::size_t next_ = 0;
  bool fits_ = true;
};

} // namespace

std::optional<double> figure_of(const curve_point& p, std::string_view figure) {
  std::optional<double> found;
  curve_columns_of(p, [&](std::string_view name, const auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, std::optional<double>>)
      if (name == figure) found = member;
  });
  return found;
}

std::string row_header(const std::vector<std::string>& axes) {
  std::string line = "cell";
  for (const std::string& axis : axes) line += ',' + csv_field(axis);
  const sweep_row any;
  columns_of(any, [&](const char* name, const auto&) { line += ',' + std::string(name); });
  return line;
}

std::string to_csv(const sweep_row& row) {
  std::string line = std::to_string(row.cell);
  for (const std::string& value : row.values) line += ',' + csv_field(value);
  columns_of(row, [&](const char*, const auto& member) { line += ',' + field_of(member); });
  return line;
}

std::optional<sweep_row> row_of(std::string_view line, std::size_t axes) {
  sweep_row row;
  field_reader fields(line);
  fields.take(row.cell);
  row.values.resize(axes);
  for (std::string& value : row.values) fields.take(value);
  columns_of(row, [&](const char*, auto& member) { fields.take(member); });
  if (!fields.all_fitted()) return std::nullopt;
  return row;
}

std::string curve_header() {
  std::string line;
  const curve_point p;
  curve_columns_of(
      p, [&](const char* name, const auto&) { line += (line.empty() ? "" : ",") + std::string(name); });
  return line;
}

std::string to_csv(const curve_point& p) {
  std::string line;
  curve_columns_of(p, [&](std::string_view name, const auto& member) {
    line += (name == "cell" ? "" : ",") + field_of(member);
  });
  return line;
}

std::optional<curve_point> curve_point_of(std::string_view line) {
  curve_point p;
  field_reader fields(line);
  curve_columns_of(p, [&](const char*, auto& member) { fields.take(member); });
  if (!fields.all_fitted()) return std::nullopt;
  return p;
}

namespace {

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

/// Axes as row_header() wants them.
std::vector<std::string> names_of(const sweep& s) {
  std::vector<std::string> names;
  for (const sweep_axis& a : s.grid) names.push_back(a.key);
  return names;
}

} // namespace

sweep_folder::sweep_folder(fs::path folder, const sweep& s, const sweep_origin& origin, old_rows what)
    : folder_(made(std::move(folder))), cells_(s.kept_cells()),
      lock_(folder_, "another process runs a sweep there") {
  const std::string identity = identity_of(s, origin);
  if (what == old_rows::set_aside || !fs::exists(folder_ / rows_name)) set_aside();
  require_same(identity);
  read_rows(s);
  read_curves();
  rewrite(s, identity);
  open_to_append();
}

void sweep_folder::set_aside() const {
  keep_older(std::array{folder_ / identity_name, folder_ / rows_name, folder_ / curves_name});
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
  std::string rows = row_header(names_of(s)) + '\n', curves = curve_header() + '\n';
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

} // namespace mailgrad::lab
