#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mailgrad {

/// How the numbers of a gradient are written into a message. docs/wire_formats.md has every byte. The values
/// are those in the bytes.
enum class wire_encoding : std::uint8_t {
  float32 = 0,
  float16 = 1,
  bfloat16 = 2,
  int8 = 3,
  top_k = 4,
  one_bit = 5
};

/// An encoding with its settings.
struct wire_format {
  wire_encoding encoding = wire_encoding::float32;
  std::uint32_t block = 0; ///< int8 and one_bit: numbers that share a scale or two means
  double share = 0;        ///< top_k: of the numbers, those that are sent

  friend bool operator==(const wire_format&, const wire_format&) = default;
};

/// Reads "float32", "float16", "bfloat16", "int8", "int8:block=256", "top-k:0.01", "1-bit" or
/// "1-bit:block=512".
///
/// Errors  std::invalid_argument in one line that says what would be right.
wire_format parse_wire_format(std::string_view text);

/// The text that parse_wire_format() reads as the same, with all settings.
std::string to_string(const wire_format& f);

/// Whether what is decoded may differ from what was encoded, so that the sender keeps a residual.
constexpr bool is_lossy(const wire_format& f) noexcept { return f.encoding != wire_encoding::float32; }

/// How each is written, and what it does in a few words.
struct wire_format_form {
  std::string_view text;
  std::string_view what;
};
std::span<const wire_format_form> wire_format_forms();

} // namespace mailgrad
