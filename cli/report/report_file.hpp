#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// The staleness that the policy of a run lets expect, of workers that are always busy.
///
/// Source  docs/policies.md. The mean follows from counting alone, whatever the times of steps are. For a
///         worker that makes a share p of all updates under `async` it is 1 / p - 1. Where times of steps are
///         exponential, the gap k has the probability p (1 - p)^k, since between two updates of the worker
///         each one is somebody else's with probability 1 - p.
struct expected_staleness {
  std::optional<double> mean;      ///< in versions
  bool at_most = false;            ///< `mean` is a bound of it
  std::optional<double> geometric; ///< p, where the law is known
  std::string in_words;            ///< one sentence, also where nothing is known
};

/// What is expected of the first workers of a run under this policy.
std::vector<expected_staleness> expected_of(const training_report& r, const std::string& policy,
                                            std::size_t workers);

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
