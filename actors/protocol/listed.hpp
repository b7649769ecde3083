#pragma once

#include <mailgrad/engine/account/time_source.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <optional>
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

/// "worker 0 (heard 0.2 s ago), 2 (not heard yet)", where `heard` gives the time of the last message of each.
template <class Heard>
std::string listed_with_last_words(std::string_view noun, std::span<const std::uint32_t> numbers, instant now,
                                   const Heard& heard) {
  std::string text;
  for (const std::uint32_t n : numbers) {
    const std::optional<instant> at = heard(n);
    text += text.empty() ? std::string(noun) + ' ' : ", ";
    text += at ? fmt::format("{} (heard {:.1f} s ago)", n, in_seconds(now - *at))
               : fmt::format("{} (not heard yet)", n);
  }
  return text;
}

} // namespace mailgrad
