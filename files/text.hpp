#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mailgrad {

struct utf8_character {
  std::int32_t code = 0;  ///< Unicode code point
  std::size_t length = 0; ///< in bytes
};

inline constexpr std::size_t longest_utf8_character = 4;

/// Decodes the character that `bytes` begin with. Returns nothing if they begin with no character, or with
/// only a part of one.
/// Source  RFC 3629: no overlong forms, no surrogates, nothing beyond 0x10ffff.
std::optional<utf8_character> first_character(std::span<const std::uint8_t> bytes);

// JSON holds characters, and a text of ours may hold any bytes: a path of Linux is not always UTF-8. A text
// that has to come back byte for byte, such as a path to open again, goes through these two.

/// A text as JSON can hold it. Each byte that begins no character, and U+0000, becomes U+0000 and two
/// hexadecimal digits; all other texts stay as they are.
std::string text_in_json(std::string_view bytes);

/// The bytes that text_in_json() was given. A U+0000 without two digits stays as it is.
std::string bytes_of_text_in_json(std::string_view text);

/// JSON from a file or a peer, for a parser that takes a NUL for the end of all: from the first NUL on, which
/// is no JSON, so that nothing behind it is passed over.
std::string_view whole_json(std::string_view text);

/// How deep lists and objects may be nested in a JSON file that Mailgrad reads. Its files need a depth of
/// four.
inline constexpr std::size_t most_json_depth = 32;

/// Whether a JSON text nests lists and objects deeper than that. This is checked before the text is parsed,
/// since recursive functions visit the parser's values.
bool is_too_deep(std::string_view json) noexcept;

} // namespace mailgrad
