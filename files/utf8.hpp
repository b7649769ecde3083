#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mailgrad {

struct utf8_character {
  std::int32_t code = 0;  ///< Unicode code point
  std::size_t length = 0; ///< in bytes
};

inline constexpr std::size_t longest_utf8_character = 4;

/// Decodes the character that `bytes` begin with. Returns nothing if they begin with no character, or with
/// only a part of one.
///
/// Source  RFC 3629: no overlong forms, no surrogates, nothing beyond 0x10ffff.
std::optional<utf8_character> first_character(std::span<const std::uint8_t> bytes);

} // namespace mailgrad
