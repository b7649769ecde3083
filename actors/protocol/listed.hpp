#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mailgrad {

/// "worker 0, 2" for the numbers 0 and 2; "" for no number.
inline std::string listed(std::string_view noun, std::span<const std::uint32_t> numbers) {
  std::string text;
  for (const std::uint32_t n : numbers)
    text.append(text.empty() ? std::string(noun) + ' ' : ", ").append(std::to_string(n));
  return text;
}

} // namespace mailgrad
