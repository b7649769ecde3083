#pragma once

#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/training_options.hpp>

#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

/// What determines a run, but for the order in which its shards take gradients: model, data, options, library
/// and arithmetic, by name and in words. Large things are told by their SHA-256.
std::vector<std::pair<std::string, std::string>> facts_of(const model_function& model,
                                                          const model_request& request,
                                                          const data_split& data, const training_options& o);

/// A plug-in is told by the SHA-256 of its file, and may be asked for it before its code runs.
///
/// Returns  the sum.
/// Errors   recording_error: the recorded run had no such plug-in, or one with other bytes; std::system_error
///          if the file cannot be read.
std::string require_recorded_plugin(const recording& r, const std::string& file);

/// Errors  recording_error: a fact differs, or the number of workers; one line with what was expected and
///         found.
void require_same_run(const recording& r, const training_options& o,
                      const std::vector<std::pair<std::string, std::string>>& facts);

} // namespace mailgrad
