#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <string>

namespace mailgrad {

/// The lines of the tests at the end of a run, and of the weights that they tested, as far as they are known.
std::string last_test_lines(const training_report& r);

/// The lines of the tests during a run, and of tests and texts that a card of it has left to the host.
std::string evaluation_lines(const training_report& r);

} // namespace mailgrad
