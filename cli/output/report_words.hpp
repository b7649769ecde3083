#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <string>

namespace mailgrad {

/// The summary that a run prints at its end. `recording` is what it replayed, if it was a replay.
std::string in_words(const training_report& r, const std::string& recording = {});

} // namespace mailgrad
