#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

/// A report that a run has left, as far as a page or a picture needs it.
struct report_file {
  std::string path;
  training_report report;
  bool has_curve = true; ///< a report of an older version has none
  /// Rows of the table, a name and a text each, in the order in which they are shown.
  std::vector<std::pair<std::string, std::string>> facts;
};

/// Reads a report that `mailgrad train --report` wrote.
///
/// Errors  file_error in one line, with the field, what was expected and what was found: the file cannot be
///         read, is damaged, is no report, or contradicts itself.
report_file read_report(const std::string& path);

} // namespace mailgrad
