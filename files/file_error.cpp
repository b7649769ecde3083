#include <mailgrad/files/file_error.hpp>

#include <array>
#include <cstdio>

namespace mailgrad {

namespace {

constexpr std::size_t longest_quote = 32;

bool printable(char c) { return c >= ' ' && c <= '~'; }

std::string escaped(char c) {
  std::array<char, 5> text{};
  std::snprintf(text.data(), text.size(), "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return text.data();
}

/// A file's name may hold anything but a zero byte; the message stays one line.
std::string in_one_line(const std::filesystem::path& file) {
  std::string text;
  for (char c : file.string()) text += c == '\n' || c == '\r' ? escaped(c) : std::string(1, c);
  return text;
}

[[noreturn]] void throw_line(const std::filesystem::path& file, const std::string& where,
                             std::string_view what) {
  throw file_error(world_errc::malformed_file, in_one_line(file) + ": " + where + std::string(what));
}

} // namespace

void throw_malformed(const std::filesystem::path& file, file_offset where, std::string_view what) {
  throw_line(file, "offset " + std::to_string(where.value) + ": ", what);
}

void throw_malformed(const std::filesystem::path& file, file_line where, std::string_view what) {
  throw_line(file, "line " + std::to_string(where.value) + ": ", what);
}

void throw_malformed(const std::filesystem::path& file, std::string_view what) { throw_line(file, "", what); }

void throw_unreadable(const std::filesystem::path& file, int code) {
  const std::error_code error{code, std::generic_category()};
  throw file_error(error, in_one_line(file) + ": cannot be read: " + error.message());
}

std::string in_quotes(std::string_view found) {
  std::string text = "'";
  for (char c : found.substr(0, longest_quote)) text += printable(c) ? std::string(1, c) : escaped(c);
  return text + (found.size() > longest_quote ? "...'" : "'");
}

std::string in_hex(std::uint32_t number) {
  std::array<char, 11> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", static_cast<unsigned>(number));
  return text.data();
}

} // namespace mailgrad
