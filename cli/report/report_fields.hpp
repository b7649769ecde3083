#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace mailgrad {

/// Checked access to an object in the JSON of a report. An error names the file and the field.
///
/// Errors  file_error in one line from each member.
class report_fields {
public:
  using json = nlohmann::ordered_json;

  /// `where` is what to put before the names of fields, such as "staleness.".
  report_fields(std::string file, const json& object, std::string where = {});

  bool has(const char* name) const { return object_.contains(name); }
  bool is_null(const char* name) const { return at(name).is_null(); }
  report_fields object(const char* name) const;
  /// An empty list may be anything that follows; the caller checks its entries.
  const json& list(const char* name) const;
  std::string text(const char* name) const;
  /// A finite number of at least 0.
  double number(const char* name) const;
  /// The same, or null.
  std::optional<double> known(const char* name) const;
  /// A whole number up to 2^53, above which JSON's readers disagree.
  std::uint64_t count(const char* name) const;

  const json& at(const char* name) const;
  const std::string& file() const noexcept { return file_; }
  [[noreturn]] void fail(const char* name, const std::string& expected) const;
  [[noreturn]] void contradict(const std::string& what) const;

private:
  std::string file_;
  const json& object_;
  std::string where_;
};

} // namespace mailgrad
