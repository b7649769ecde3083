#pragma once

#include <string>

namespace mailgrad {

/// " (process 4711)": who holds the lock of this file; empty if nobody does, or the system does not tell, as
/// of another machine.
std::string lock_holder_in_words(const std::string& path);

} // namespace mailgrad
