#include <mailgrad/files/shell_word.hpp>

namespace mailgrad {

namespace {

constexpr std::string_view harmless =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-";

} // namespace

std::string shell_word(std::string_view text) {
  if (!text.empty() && text.find_first_not_of(harmless) == text.npos) return std::string(text);
  std::string word = "'";
  for (const char c : text)
    if (c == '\'')
      word += "'\\''"; // out of the quotes, a quote, and in again
    else
      word += c;
  return word + '\'';
}

} // namespace mailgrad
