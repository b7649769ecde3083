#pragma once

#include <string>

namespace mailgrad {

// The lists in the help of `mailgrad train`. Each has a title, and a line for each entry.

/// The built-in models and their settings.
std::string models();
std::string policies_and_cures();
std::string default_learning_rates();
/// An example of a model file, and the header that documents the format.
std::string model_file_format();

/// What `--help` says of the laws by which steps take time.
std::string delays_in_help();

} // namespace mailgrad
