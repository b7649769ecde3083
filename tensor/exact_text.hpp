#pragma once

#include <charconv>
#include <string>

namespace mailgrad {

/// The shortest text that reads as the same number.
template <class Float>
std::string exact_text(Float number) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

} // namespace mailgrad
