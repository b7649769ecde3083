#pragma once

#include <mailgrad/engine/account/time_source.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mailgrad {

/// "workers 0, 2" for the numbers 0 and 2, "worker 2" for one; "" for no number.
inline std::string listed(std::string_view noun, std::span<const std::uint32_t> numbers) {
  std::string text;
  for (const std::uint32_t n : numbers)
    text += text.empty() ? fmt::format("{}{} {}", noun, numbers.size() == 1 ? "" : "s", n)
                         : fmt::format(", {}", n);
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
