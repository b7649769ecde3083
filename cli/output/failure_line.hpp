#pragma once

#include <string_view>

namespace mailgrad {

/// Prints "mailgrad: WORDS" as a line of standard error by one write. Ranks of a launcher share that stream,
/// so parts of a line could come between the parts of another's. Names of the library in brackets, which are
/// for who writes C++, are left out.
void say_failure(std::string_view words);

/// Prints "mailgrad: warning: WORDS" in the same way, fitted to the terminal: what looks like a mistake, and
/// stops nothing.
void say_warning(std::string_view words);

/// Prints "WORDS" in the same way: what is no failure.
void say_line(std::string_view words);

} // namespace mailgrad
