#pragma once

#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace mailgrad {

/// The file for the trained weights. Like other outputs it is checked before the run, and it replaces an
/// older file only when it is whole.
class weights_output {
public:
  /// With an empty path nothing is written.
  ///
  /// Errors  std::invalid_argument for standard output or a pipe; std::system_error if `path` cannot be
  ///         written.
  explicit weights_output(std::string path);

  /// Requires that the disk has room for a file of these variables and this card, and that this process may
  /// write one so long.
  ///
  /// Errors  std::runtime_error: it has not, or may not.
  void require_room(const parameter_layout& layout, const model_card& card) const;

  /// Writes the weights with their card and the report. Those of a run that has diverged are not written, so
  /// that they do not replace better ones, unless they are the best of its tests. If the file cannot be
  /// written, the weights go to a file in the folder for temporary files.
  ///
  /// Errors  std::runtime_error: why they were not written where they should be, and where they are.
  void write(std::span<const named_weights> weights, const model_card& card, const training_report& r) const;

private:
  std::string path_;
};

/// What was loaded with --load-strict no: "took 3 of 4 variables of 'mlp.safetensors'", and a line for each
/// difference.
std::string loaded_in_words(const saved_weights& from, const parameter_layout& layout);

} // namespace mailgrad
