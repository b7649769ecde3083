#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <nlohmann/json.hpp>

// The table of figures. JSON, CSV, TensorBoard and what `mailgrad report` reads are loops over it. So is
// Prometheus, to which cli/live/live_page.cpp adds metrics of its own. The tool's summary is written by hand
// (cli/output/format_report.cpp). scripts/check-pages compares names and units with the pages.

namespace mailgrad {

/// How a figure is called where its name is another one. What has no name here does not have the figure.
struct figure_elsewhere {
  const char* tag = nullptr;    ///< in TensorBoard, which draws tags of one prefix together
  const char* metric = nullptr; ///< in Prometheus, behind "mailgrad_"; that of a counter ends in "_total"
  const char* help = nullptr;   ///< of the metric, one sentence
  const char* label = nullptr;  ///< where several figures share a metric: "fate"
  const char* of_label = nullptr;
  bool of_tests = false; ///< there only where weights were tested: left out of JSON instead of null
};

/// A row of the table, with the value that its books have.
struct figure {
  const char* name;             ///< in JSON, in CSV and for --stop-when
  const char* unit;             ///< "mini-batches"; empty: it has none
  nlohmann::ordered_json value; ///< null: nobody knows it
  figure_elsewhere elsewhere{};
  /// Nothing if it is not known or no number.
  std::optional<double> number() const {
    return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
  }
};

std::vector<figure> figures_of(const training_report& r);
std::vector<figure> figures_of(const metrics_line& x);
std::vector<figure> figures_of(const gradient_ledger& l);
std::vector<figure> figures_of(const time_split& t);
std::vector<figure> figures_of(const wait_seconds& w);
std::vector<figure> figures_of(const checkpoint_account& c);
std::vector<figure> figures_of(const late_figures& x);
std::vector<figure> figures_of(const run_member& m);

nlohmann::ordered_json object_of(std::vector<figure> figures);

/// The fields of an object of JSON in a file from anywhere. An error names the file and the field.
/// Errors  file_error in one line from each member.
class report_fields {
public:
  using json = nlohmann::ordered_json;
  /// `where` stands before the names of fields, such as "staleness.".
  report_fields(std::string file, const json& object, std::string where = {});

  bool has(const char* name) const { return object_.contains(name); }
  bool is_null(const char* name) const { return at(name).is_null(); }
  const json& at(const char* name) const;
  report_fields object(const char* name) const { return entry(name, at(name)); }
  const json& list(const char* name) const;
  report_fields entry(const char* name, const json& one) const { return {file_, one, where_ + name + "."}; }
  std::string text(const char* name) const;
  double number(const char* name) const;               ///< a finite number of at least 0
  std::optional<double> known(const char* name) const; ///< a finite number, or null
  /// A whole number from 0 on. Readers of JSON disagree above 2^53.
  std::uint64_t count(const char* name, std::uint64_t most = most_count) const;

  [[noreturn]] void fail(const char* name, const std::string& expected) const;
  [[noreturn]] void contradict(const std::string& what) const;

  static constexpr std::uint64_t most_count = std::uint64_t{1} << 53;

private:
  std::string file_;
  const json& object_;
  std::string where_;
};

/// The table backwards, as far as somebody asks for it. What an older version lacks is left out.
/// Errors  as report_fields, and if a rank or a mean contradicts the others.
training_report report_in(const report_fields& fields);

} // namespace mailgrad
