#pragma once

#include <string_view>

namespace mailgrad {

/// Prints "mailgrad: WORDS" as a line of standard error by one write. Ranks of a launcher share that stream,
/// so parts of a line could come between the parts of another's.
void say_failure(std::string_view words);

/// Prints "WORDS" in the same way: what is no failure.
void say_line(std::string_view words);

} // namespace mailgrad
