#include <mailgrad/lab/sweep/sweep_row.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
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

} // namespace mailgrad::lab
