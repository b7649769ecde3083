#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/cli/spanning_option.hpp>

#include <string>

namespace mailgrad {

/// Describes the run that begins, in two lines: data, model, policy, devices and the shards of the weights.
/// `where` takes the place of the devices if workers have brought their own.
std::string introduction(const std::string& model, const spanning_words& span, const training_options& o,
                         const data_split& data, const training& run, const std::string& where);

} // namespace mailgrad
