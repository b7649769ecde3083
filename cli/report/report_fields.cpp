#include <mailgrad/cli/report/report_fields.hpp>

#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace mailgrad {

namespace {

constexpr std::uint64_t most = std::uint64_t{1} << 53;

std::string shown(const report_fields::json& found) {
  return in_quotes(found.dump(-1, ' ', false, report_fields::json::error_handler_t::replace));
}

} // namespace

report_fields::report_fields(std::string file, const json& object, std::string where)
    : file_(std::move(file)), object_(object), where_(std::move(where)) {
  if (!object_.is_object())
    throw_malformed(
        file_,
        fmt::format("{}expected an object, found {}",
                    where_.empty() ? "" : "'" + where_.substr(0, where_.size() - 1) + "': ", shown(object_)));
}

const report_fields::json& report_fields::at(const char* name) const {
  const auto found = object_.find(name);
  if (found == object_.end())
    throw_malformed(
        file_,
        fmt::format("expected a report of 'mailgrad train --report', found no field '{}{}'", where_, name));
  return *found;
}

void report_fields::fail(const char* name, const std::string& expected) const {
  throw_malformed(
      file_, fmt::format("field '{}{}': expected {}, found {}", where_, name, expected, shown(at(name))));
}

void report_fields::contradict(const std::string& what) const { throw_malformed(file_, what); }

report_fields report_fields::object(const char* name) const { return {file_, at(name), where_ + name + "."}; }

const report_fields::json& report_fields::list(const char* name) const {
  if (!at(name).is_array()) fail(name, "a list");
  return at(name);
}

std::string report_fields::text(const char* name) const {
  if (!at(name).is_string()) fail(name, "a text");
  return at(name).get<std::string>();
}

double report_fields::number(const char* name) const {
  const json& found = at(name);
  if (!found.is_number() || !std::isfinite(found.get<double>()) || found.get<double>() < 0)
    fail(name, "a number of at least 0");
  return found.get<double>();
}

std::optional<double> report_fields::known(const char* name) const {
  const json& found = at(name);
  if (found.is_null()) return std::nullopt;
  if (!found.is_number() || !std::isfinite(found.get<double>())) fail(name, "a number or null");
  return found.get<double>();
}

std::uint64_t report_fields::count(const char* name) const {
  const json& found = at(name);
  if (!found.is_number_unsigned() || found.get<std::uint64_t>() > most)
    fail(name, fmt::format("a whole number up to {}", most));
  return found.get<std::uint64_t>();
}

} // namespace mailgrad
