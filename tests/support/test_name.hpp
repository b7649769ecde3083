#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace mailgrad::testing {

/// Makes a text a name of a parameterised test: all characters but letters and digits become '_'.
inline std::string test_name(std::string_view text) {
  std::string name(text);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

} // namespace mailgrad::testing
