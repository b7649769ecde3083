#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>

#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
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

/// The destination of one output of a run. The path is checked before the run, so that a wrong one does not
/// cost an hour of training. The file is replaced atomically after the run, so that a reader never sees half
/// of it. A link is followed; a pipe or a device is written to directly. A run that is killed writes no file.
/// The path "-" is standard output; a file of that name is "./-".
class output_file {
public:
  static constexpr std::string_view standard_output = "-";

  /// `what` names the output in errors, such as "report". With an empty path nothing is written.
  ///
  /// Errors  std::system_error if `path` cannot be written.
  output_file(std::string what, const std::string& path);

  /// Whether both would replace the same file, or both go to standard output.
  bool same_file(const output_file& other) const;
  bool is_standard_output() const noexcept { return path_ == standard_output; }

  /// Errors  std::runtime_error, for example on a full disk; an older file is unchanged then.
  void write(const std::function<void(std::ostream&)>& content) const;

private:
  std::string what_;
  std::string path_;
};

/// What was loaded with --load-strict no: "took 3 of 4 variables of 'mlp.safetensors'", and a line for each
/// difference.
std::string format_loaded(const saved_weights& from, const parameter_layout& layout);

/// The paths that the command line gives for outputs; an empty one means that the output is not wanted.
struct output_paths {
  std::string report;
  std::string staleness_csv;
  std::string trace;
  std::string save;        ///< weights
  std::string metrics;     ///< written by the run itself, as the next two
  std::string tensorboard; ///< a folder
  std::string record;      ///< written by the run itself; no other output may name the same file
};

/// Whether an option, such as "--report", is one of these.
bool is_output_option(std::string_view option);

/// The output files of a run: the report as JSON, staleness as CSV, a timeline for Perfetto, weights.
class run_outputs {
public:
  /// Errors  std::system_error if a file cannot be written; std::invalid_argument if two outputs name the
  ///         same file, one of them is an input, or the recording would go to standard output.
  run_outputs(const output_paths& paths, const std::vector<input_file>& inputs);

  /// Whether an output goes to standard output, where nothing else may be printed then.
  bool take_standard_output() const;
  /// Prints the summary of a run, fitted to a terminal: to standard error if an output goes to standard
  /// output.
  void print_summary(const std::string& text) const;

  /// Requires that the disk has room for the weights of these variables and this card, and that this process
  /// may write a file so long.
  ///
  /// Errors  std::runtime_error: it has not, or may not.
  void require_room(const parameter_layout& layout, const model_card& card) const;

  /// Writes all outputs, even if one of them fails: the weights first, as nothing else took as long to make.
  /// Returns why outputs were not written, a line each. Weights of a run that has diverged replace no better
  /// ones, unless they are the best of its tests. Weights that cannot be written go to a file in the folder
  /// for temporary files.
  std::vector<std::string> write(const training_report& r, const run_trace& trace,
                                 std::span<const named_weights> weights, const model_card& card) const;

private:
  void write_weights(std::span<const named_weights> weights, const model_card& card,
                     const training_report& r) const;

  output_file report_;
  output_file staleness_csv_;
  output_file trace_;
  std::string weights_; ///< its path
};

} // namespace mailgrad
