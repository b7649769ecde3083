#pragma once

#include <mailgrad/tensor/error.hpp>

#include <bit>
#include <cstring>
#include <system_error>

namespace mailgrad {

/// How the numbers of a gradient are written into a message, as docs/wire_formats.md says.
enum class wire_encoding : std::uint8_t {
  float32 = 0,
  float16 = 1,
  bfloat16 = 2,
  int8 = 3,
  top_k = 4,
  one_bit = 5
};

struct wire_format {
  wire_encoding encoding = wire_encoding::float32;
  std::uint32_t block = 0; ///< int8 and one_bit: numbers that share a scale or two means
  double share = 0;        ///< top_k: of the numbers, those that are sent

  friend bool operator==(const wire_format&, const wire_format&) = default;
};

/// Reads "float32", "float16", "bfloat16", "int8", "int8:block=256", "top-k:0.01", "1-bit" or
/// "1-bit:block=512".
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

/// Bytes that came from elsewhere do not hold what their format promises; `what()` is one line for the user.
class wire_error : public std::system_error {
public:
  explicit wire_error(std::string_view what)
      : std::system_error(world_errc::malformed_message), text_(what) {}
  const char* what() const noexcept override { return text_.c_str(); }

private:
  std::string text_; ///< without the category's own words, which std::system_error would append
};

static_assert(std::endian::native == std::endian::little, "messages hold numbers as this processor does");

// Numbers of four bytes at any place of a message, little-endian. The bytes must be there.

inline std::uint32_t whole_at(std::span<const std::byte> from, std::size_t at) {
  std::uint32_t number;
  std::memcpy(&number, &from[at], 4);
  return number;
}

inline float float_at(std::span<const std::byte> from, std::size_t at) {
  return std::bit_cast<float>(whole_at(from, at));
}

inline void put_whole(std::span<std::byte> to, std::size_t at, std::uint32_t number) {
  std::memcpy(&to[at], &number, 4);
}

inline void put_float(std::span<std::byte> to, std::size_t at, float number) {
  put_whole(to, at, std::bit_cast<std::uint32_t>(number));
}

/// What stands before encoded numbers: 12 bytes.
struct wire_header {
  static constexpr std::size_t bytes = 12;

  wire_encoding encoding{};
  std::uint32_t count = 0;   ///< numbers
  std::uint32_t setting = 0; ///< the block of int8 and one_bit, the numbers that top_k sends; otherwise 0
};

/// Where the parts of `count` encoded numbers lie in their bytes. The first part has the scales, means or
/// places, if there are any, and the second what stands for the numbers.
struct wire_layout {
  /// Errors  shape_error if `count` does not fit into 32 bits.
  wire_layout(const wire_format& f, std::size_t count);

  wire_header header;
  std::size_t first = 0;  ///< bytes
  std::size_t second = 0; ///< bytes

  std::size_t bytes() const noexcept { return wire_header::bytes + first + second; }
  template <class Byte>
  std::span<Byte> first_of(std::span<Byte> all) const {
    return all.subspan(wire_header::bytes, first);
  }
  template <class Byte>
  std::span<Byte> second_of(std::span<Byte> all) const {
    return all.subspan(wire_header::bytes + first, second);
  }
};

} // namespace mailgrad
