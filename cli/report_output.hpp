#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/cli/output_file.hpp>
#include <mailgrad/cli/run_inputs.hpp>
#include <mailgrad/cli/spanning_option.hpp>

#include <string>

namespace mailgrad {

/// As the command line names them; empty: not wanted.
struct output_paths {
  std::string report;
  std::string staleness_csv;
  std::string trace;
  std::string record; ///< written by the run itself; no other output may take its place
};

/// The files that a run leaves behind: the report as JSON, staleness as CSV, a timeline for Perfetto.
class run_outputs {
public:
  /// Errors  std::system_error if one cannot be written, std::invalid_argument if two are the same, one is an
  ///         input, or the recording is to go to standard output.
  run_outputs(const output_paths& paths, const std::vector<input_file>& inputs);

  /// Whether one of them goes to standard output, which then holds nothing else.
  bool take_standard_output() const;

  /// Writes all of them, though one should fail.
  ///
  /// Errors  std::runtime_error, of the first that failed.
  void write(const training_report& r, const run_trace& trace) const;

private:
  output_file report_;
  output_file staleness_csv_;
  output_file trace_;
};

/// What is about to happen: data, model, policy, devices and how the weights are cut, in two lines.
std::string introduction(const std::string& model, const spanning_words& span, const training_options& o,
                         const data_split& data, const training& run);

/// The summary that a run prints at its end.
std::string in_words(const training_report& r);

} // namespace mailgrad
