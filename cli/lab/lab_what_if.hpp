#pragma once

#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/lab/what_if.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace mailgrad {

/// The values of the options of `mailgrad lab what-if`.
struct what_if_args {
  std::string recording;
  std::string data;
  std::string policy;
  std::uint32_t workers = 0;
  std::string delays;
  std::uint64_t delays_seed = 1;
  std::vector<std::string> slow; ///< each "WORKER=FACTOR"
  std::string report;
  std::string durations;
  bool quiet = false;
};

void add_what_if_options(option_table& t, what_if_args& w);
std::string what_if_in_help();

/// Errors  std::invalid_argument in one line: no worker and factor.
lab::what_if understood(const what_if_args& w);

/// Repeats a recorded run, trains it once more under other conditions in virtual time, and prints both side
/// by side. Returns an exit code.
int run_what_if(const what_if_args& w);

} // namespace mailgrad
