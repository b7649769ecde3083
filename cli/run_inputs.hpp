#pragma once

#include <mailgrad/engine/record/recording.hpp>

#include <string>
#include <vector>

namespace mailgrad {

/// The inputs of a run, as the command line names them.
struct run_inputs {
  std::string model;
  std::string data;                    ///< empty: none
  std::string policy;                  ///< one or several, each built in or from a plug-in
  std::string cure;                    ///< built in or from a plug-in
  std::vector<std::string> optimizers; ///< rules or plug-ins, with settings
  const recording* replay = nullptr;   ///< the run to repeat
  std::string load{};                  ///< weights to begin with; empty: none
};

/// A file that a run reads.
struct input_file {
  std::string option; ///< the option that names it, for messages
  std::string path;
};

/// The files that these inputs name.
///
/// Errors  file_error if the data set does not exist.
std::vector<input_file> files_of(const run_inputs& in);

/// Requires that writing to `path` overwrites no input; two names or links of one file count as one.
///
/// Errors  std::invalid_argument if `path` is an input.
void require_no_input(const std::string& option, const std::string& path,
                      const std::vector<input_file>& inputs);

/// Prints which plug-ins a recording names, before any of their code runs.
///
/// Errors  recording_error: a plug-in differs from the one that the recorded run had.
void announce_plugins(const run_inputs& in);

} // namespace mailgrad
