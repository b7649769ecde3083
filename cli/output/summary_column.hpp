#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace mailgrad {

/// Pads a word to the width of the first column of the summary.
inline std::string summary_column(std::string word) {
  constexpr std::size_t width = 14;
  word.resize(std::max(word.size() + 1, width), ' ');
  return word;
}

} // namespace mailgrad
