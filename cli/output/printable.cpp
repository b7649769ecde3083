#include <mailgrad/cli/output/printable.hpp>

#include <mailgrad/files/utf8.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <span>

namespace mailgrad {

namespace {

/// Whether this is a control character of Unicode: C0, DEL or C1.
bool is_control(std::int32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

std::string in_hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return text;
}

} // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto c = first_character({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    const std::string_view bytes = text.substr(0, c ? c->length : 1);
    const bool kept = c && (!is_control(c->code) || c->code == '\n' || c->code == '\t');
    shown += kept ? std::string(bytes) : in_hexadecimal(bytes);
    text.remove_prefix(bytes.size());
  }
  return shown;
}

printable_stream::int_type printable_stream::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

std::streamsize printable_stream::xsputn(const char* text, std::streamsize count) {
  line_.append(text, static_cast<std::size_t>(count));
  const std::size_t end = line_.rfind('\n');
  return end == std::string::npos || show(end + 1) ? count : 0;
}

int printable_stream::sync() { return show(line_.size()) && to_->pubsync() == 0 ? 0 : -1; }

bool printable_stream::show(std::size_t count) {
  const std::string shown = printable(std::string_view(line_).substr(0, count));
  line_.erase(0, count);
  const auto size = static_cast<std::streamsize>(shown.size());
  return to_->sputn(shown.data(), size) == size;
}

} // namespace mailgrad
