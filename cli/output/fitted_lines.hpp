#pragma once

#include <cstddef>
#include <string>

namespace mailgrad {

/// Breaks lines of a summary that are wider than so many columns between words. What follows stands in the
/// second column. Lines that begin with a space, such as those of a table or a text, stay as they are.
std::string fitted_lines(const std::string& text, std::size_t columns);

/// The same for the terminal that this descriptor is; no line is broken for a file or a pipe.
std::string fitted_to(int descriptor, const std::string& text);

} // namespace mailgrad
