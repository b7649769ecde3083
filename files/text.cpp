#include <mailgrad/files/text.hpp>

#include <fmt/format.h>

#include <charconv>

namespace mailgrad {

namespace {

/// Returns the number of bytes of a character that begins with `lead`; 0 if no character does.
std::size_t length_of(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

constexpr char mark = '\0';
constexpr std::size_t escaped_length = 3; // the mark and two digits

std::string marked_digits(char byte) { return mark + fmt::format("{:02x}", static_cast<std::uint8_t>(byte)); }

/// The byte for which the first characters of `text` stand, if they are a mark and two digits.
std::optional<char> byte_of(std::string_view text) {
  if (text.size() < escaped_length || text[0] != mark) return std::nullopt;
  std::uint8_t byte = 0;
  const char* const end = text.data() + escaped_length;
  const auto [stop, error] = std::from_chars(text.data() + 1, end, byte, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return static_cast<char>(byte);
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

std::string text_in_json(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const auto c = first_character({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    const std::size_t length = c ? c->length : 1;
    if (c && c->code != 0)
      text += bytes.substr(0, length);
    else
      text += marked_digits(bytes.front());
    bytes.remove_prefix(length);
  }
  return text;
}

std::string bytes_of_text_in_json(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const auto byte = byte_of(text);
    bytes += byte.value_or(text.front());
    text.remove_prefix(byte ? escaped_length : 1);
  }
  return bytes;
}

std::string_view whole_json(std::string_view text) {
  const std::size_t end = text.find('\0');
  return end == std::string_view::npos ? text : text.substr(end);
}

bool is_too_deep(std::string_view json) noexcept {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{'))
      ++depth;
    else if (!in_string && (c == ']' || c == '}') && depth > 0)
      --depth;
    if (depth > most_json_depth) return true;
  }
  return false;
}

} // namespace mailgrad
