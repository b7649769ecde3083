#pragma once

#include <mailgrad/cli/commands/train_words.hpp>

#include <map>
#include <string>

namespace mailgrad {

/// Adds the SHA-256 of what the words of a run name: data, a model file, weights to begin with, plug-ins. The
/// key is "data=ratings.csv"; what has one is not read again. Of a data set in several files or of a folder
/// it is the sum of their names and sums.
///
/// Errors  file_error: there is no such data set; std::system_error: a file cannot be read.
void add_content(const train_words& w, std::map<std::string, std::string>& sums);

} // namespace mailgrad
