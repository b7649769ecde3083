#pragma once

#include <charconv>
#include <string>

namespace mailgrad {

/// Writes the shortest text that parses to the same number.
template <class Float>
std::string exact_text(Float number) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

} // namespace mailgrad
