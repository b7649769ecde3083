#pragma once

#include <string>

namespace mailgrad {

/// What `--help` says of the laws by which steps take time.
std::string delays_in_help();

} // namespace mailgrad
