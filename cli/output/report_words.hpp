#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace mailgrad {

/// What stands in the place of figures that nobody has told: `none` if there are none.
std::string untold(const training_report& r, const char* none);

/// With more workers, the summary has no line for each.
inline constexpr std::uint32_t most_workers_named = 64;

/// The lines of the tests at the end of a run, and of the weights that they tested, as far as they are known.
std::string last_test_lines(const training_report& r);

/// The lines of the tests during a run, and of tests and texts that a card of it has left to the host.
std::string evaluation_lines(const training_report& r);

/// The summary that a run prints at its end. `command` is the one by which it goes on from a checkpoint.
std::string in_words(const training_report& r, const std::string& command = "mailgrad train");

} // namespace mailgrad
