#pragma once

#include <string>

namespace mailgrad {

// Lists in the help of `mailgrad train`, each with the name of what it lists and a line for each.

/// "Models", and a line for each.
std::string models();
std::string policies_and_cures();
std::string default_learning_rates();
/// With where the whole is documented.
std::string model_file_format();

} // namespace mailgrad
