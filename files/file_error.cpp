#include <mailgrad/files/file_error.hpp>

#include <mailgrad/files/text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace mailgrad {

namespace {

constexpr std::size_t longest_quote = 32;

/// Whether this is no control character of Unicode: C0, DEL or C1.
bool is_shown(std::int32_t code) { return (code >= ' ' && code <= '~') || code >= 0xa0; }

std::string escaped(char c) { return fmt::format("\\x{:02x}", static_cast<unsigned char>(c)); }

/// A file's name may contain a newline, but a message must be one line.
std::string in_one_line(const std::filesystem::path& file) {
  std::string text;
  for (char c : file.string()) text += c == '\n' || c == '\r' ? escaped(c) : std::string(1, c);
  return text;
}

[[noreturn]] void throw_line(const std::filesystem::path& file, const std::string& where,
                             std::string_view what) {
  throw file_error(world_errc::malformed_file, fmt::format("{}: {}{}", in_one_line(file), where, what));
}

} // namespace

void throw_malformed(const std::filesystem::path& file, file_offset where, std::string_view what) {
  throw_line(file, fmt::format("offset {}: ", where.value), what);
}

void throw_malformed(const std::filesystem::path& file, file_line where, std::string_view what) {
  throw_line(file, fmt::format("line {}: ", where.value), what);
}

void throw_malformed(const std::filesystem::path& file, std::string_view what) { throw_line(file, "", what); }

void throw_unreadable(const std::filesystem::path& file, int code) {
  const std::error_code error{code, std::generic_category()};
  throw file_error(error, fmt::format("{}: cannot be read: {}", in_one_line(file), error.message()));
}

void throw_unwritable(const std::filesystem::path& file, int code) {
  const std::error_code error{code, std::generic_category()};
  throw file_error(error, fmt::format("{}: cannot be written: {}", in_one_line(file), error.message()));
}

std::string legible(std::string_view found) {
  std::string text;
  std::size_t taken = 0;
  while (taken < std::min(found.size(), longest_quote)) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(found.data()) + taken;
    const auto c = first_character(std::span(bytes, found.size() - taken));
    const std::size_t length = c && is_shown(c->code) ? c->length : 0;
    text += length > 0 ? std::string(found.substr(taken, length)) : escaped(found[taken]);
    taken += std::max<std::size_t>(length, 1);
  }
  return text + (taken < found.size() ? "..." : "");
}

std::string in_quotes(std::string_view found) { return "'" + legible(found) + "'"; }

std::string in_hex(std::uint32_t number) { return fmt::format("0x{:08x}", number); }

} // namespace mailgrad
