#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <string>
#include <vector>

// What a server tells who asks how its run stands.

namespace mailgrad {

/// As a JSON object: the report of this moment, what actors wait for, and both in words.
std::string status_of(const training_report& so_far, const std::vector<std::string>& waits);

/// What a user reads of it: the report in words, and a line for each wait. Also of a run that waits for its
/// workers.
///
/// Errors  std::runtime_error in one line if it is no such object.
std::string status_in_words(const std::string& status);

} // namespace mailgrad
