#pragma once

#include <mailgrad/engine/record/recording.hpp>

#include <string>
#include <vector>

namespace mailgrad {

/// What a run reads, as the command line names it.
struct run_inputs {
  std::string model;
  std::string data;                    ///< empty: none
  std::string policy;                  ///< or several, with plug-ins among them
  std::vector<std::string> optimizers; ///< rules or plug-ins, with settings
  const recording* replay = nullptr;   ///< the run to repeat
};

/// A file that a run reads.
struct input_file {
  std::string option; ///< that names it, for messages
  std::string path;
};

/// Errors  file_error if there is no such data.
std::vector<input_file> files_of(const run_inputs& in);

/// Whether an output may be written to `path`; two names or links of one file count as one.
///
/// Errors  std::invalid_argument if it is an input.
void require_no_input(const std::string& option, const std::string& path,
                      const std::vector<input_file>& inputs);

/// Says which plug-ins a recording names, before any of their code runs.
///
/// Errors  recording_error: a plug-in is not the one that the recorded run had.
void announce_plugins(const run_inputs& in);

} // namespace mailgrad
