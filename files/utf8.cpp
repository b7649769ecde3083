#include <mailgrad/files/utf8.hpp>

namespace mailgrad {

namespace {

/// Returns the number of bytes of a character that begins with `lead`; 0 if no character does.
std::size_t length_of(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

} // namespace

std::optional<utf8_character> first_character(std::span<const std::uint8_t> bytes) {
  const std::size_t length = bytes.empty() ? 0 : length_of(bytes[0]);
  if (length == 0 || length > bytes.size()) return std::nullopt;
  if (length == 1) return utf8_character{bytes[0], 1};
  std::uint32_t code = bytes[0] & (0xffU >> (length + 1));
  for (const std::uint8_t byte : bytes.subspan(1, length - 1)) {
    if ((byte & 0xc0) != 0x80) return std::nullopt;
    code = code << 6 | (byte & 0x3fU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (overlong || surrogate || code > 0x10ffff) return std::nullopt;
  return utf8_character{static_cast<std::int32_t>(code), length};
}

} // namespace mailgrad
