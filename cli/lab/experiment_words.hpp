#pragma once

#include <mailgrad/lab/experiment.hpp>

#include <string>

namespace mailgrad {

/// A measured or an expected number, with as many digits as somebody compares.
std::string number_in_words(double number);

/// "1.00 +- 0.02", "at most 3", as the column of what is expected has it.
std::string expectation_in_words(const lab::claim& c);

/// The claims of an experiment as a table, and a last line with the judgement.
std::string in_words(const lab::experiment_result& r, double seconds);

/// What is claimed, by whom, for the head of an output.
std::string introduction(const lab::experiment& e);

/// A line for each experiment, the name first.
std::string list_of_experiments();

} // namespace mailgrad
