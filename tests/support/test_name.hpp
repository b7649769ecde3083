#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace mailgrad::testing {

/// A text as the name of a parameterised test: letters and digits stay, all else becomes '_'.
inline std::string test_name(std::string_view text) {
  std::string name(text);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

} // namespace mailgrad::testing
