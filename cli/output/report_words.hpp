#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <string>

namespace mailgrad {

/// The summary that a run prints at its end. `command` is the one by which it goes on from a checkpoint.
std::string in_words(const training_report& r, const std::string& command = "mailgrad train");

} // namespace mailgrad
