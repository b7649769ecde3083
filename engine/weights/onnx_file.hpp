#pragma once

#include <mailgrad/engine/weights/weights_file.hpp>

namespace mailgrad {

/// Writes a trained model as an ONNX file (operators of version 17, format version 8), which other programs
/// run without this one. An older file is replaced only by a whole new one.
///
/// The file's inputs are those that the logits depend on, by their names in the model: "features" with the
/// numbers as the data files have them, since the divisors of the card are nodes of the file; for texts the
/// numbers of symbols. Its output is "logits". The size of the batch is open. The metadata has the card.
/// Shapes  as model_function says, where "batch" stands for the number of samples.
/// Errors  std::invalid_argument in one line: the weights do not fit their model, have no card, are larger
///         than 2 GiB, which is what the format can hold, or an operation of the model has no counterpart in
///         ONNX; file_error if the file cannot be written; graph_error as build_model().
void write_onnx(const std::filesystem::path& path, const saved_weights& trained);
/// The same for a model function of the program's own.
void write_onnx(const std::filesystem::path& path, const model_function& model, const saved_weights& trained);

} // namespace mailgrad
