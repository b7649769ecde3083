#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <nlohmann/json.hpp>

#include <string>

namespace mailgrad {

/// A report that a run has left, as far as a page or a picture needs it.
struct report_file {
  std::string path;
  training_report report;
  nlohmann::ordered_json fields; ///< all that it tells
  bool has_curve = true;         ///< a report of an older version has none
};

/// Reads a report that `mailgrad train --report` wrote.
///
/// Errors  file_error in one line, with the field, what was expected and what was found: the file cannot be
///         read, is damaged, is no report, or contradicts itself.
report_file read_report(const std::string& path);

} // namespace mailgrad
