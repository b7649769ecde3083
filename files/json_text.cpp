#include <mailgrad/files/json_text.hpp>
#include <mailgrad/files/utf8.hpp>

#include <charconv>
#include <cstdint>
#include <optional>

namespace mailgrad {

namespace {

constexpr char mark = '\0';
constexpr std::size_t escaped_length = 3; // the mark and two digits

std::string marked_digits(char byte) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto number = static_cast<std::uint8_t>(byte);
  return {mark, digits[number >> 4], digits[number & 0xf]};
}

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
