#pragma once

#include <mailgrad/actors/training.hpp>

#include <string>

namespace mailgrad {

/// Where the report of a run goes. The path is tried before the run, so that an hour of training is not lost to a wrong
/// one, and the file is replaced in one step after it, so that a reader never sees half of one. A link is followed; a
/// pipe or a device is written into. A run that does not end leaves no file behind.
class report_output {
public:
  /// Errors  std::system_error if `path`, not empty, cannot be written.
  explicit report_output(const std::string& path);
  report_output(const report_output&) = delete;
  report_output& operator=(const report_output&) = delete;

  /// Errors  std::runtime_error, on a full disk for one; a file is what it was before.
  void write(const training_report& r) const;

private:
  std::string path_;
};

/// What is about to happen: data, model, devices and how the weights are cut, in two lines.
std::string introduction(const training_options& o, const data_split& data, const training& run);

/// The summary that a run prints at its end.
std::string in_words(const training_report& r);

} // namespace mailgrad
