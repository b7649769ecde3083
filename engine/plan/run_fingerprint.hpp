#pragma once

#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

/// Everything that determines a run except the order in which its shards take gradients: model, data,
/// options, library and arithmetic, by name and in words. Large objects are given by their SHA-256.
std::vector<std::pair<std::string, std::string>> facts_of(const model_function& model,
                                                          const model_request& request,
                                                          const data_split& data, const training_options& o);

/// The names of the facts that give the training samples and the model by their SHA-256.
inline constexpr const char* samples_fact = "SHA-256 of the training samples";
inline constexpr const char* model_fact = "SHA-256 of the model";

/// Requires, before a plug-in's code runs, that it is the recorded one. Plug-ins are compared by the SHA-256
/// of their files.
///
/// Returns  the sum.
/// Errors   recording_error: the recorded run had no such plug-in, or one with other bytes; std::system_error
///          if the file cannot be read.
std::string require_recorded_plugin(const recording& r, const std::string& file);

/// Errors  recording_error in one line with what was expected and found: a fact or the number of workers or
///         shards differs.
void require_same_run(const recording& r, const training_options& o,
                      const std::vector<std::pair<std::string, std::string>>& facts);

} // namespace mailgrad
