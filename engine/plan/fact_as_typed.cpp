#include <mailgrad/engine/plan/fact_as_typed.hpp>

#include <mailgrad/optim/optimizer_options.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <vector>

namespace mailgrad {

namespace {

/// 0.1 for 0.10000000000000001, and 1e-8 for 1e-08. What is no number, or a whole one, stays as it is.
std::string shortest(std::string_view word) {
  double number = 0;
  const auto [rest, wrong] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_whole = word.find_first_of(".e") == word.npos;
  if (is_whole || wrong != std::errc() || rest != word.data() + word.size()) return std::string(word);
  std::string text = fmt::format("{}", number);
  for (const std::string_view zero : {"e-0", "e+0"})
    if (const std::size_t at = text.find(zero); at != text.npos) text.erase(at + 2, 1);
  return text;
}

std::string with_short_numbers(std::string_view value) {
  constexpr std::string_view between = " ,=:@";
  std::string text;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find_first_of(between, begin), value.size());
    text += shortest(value.substr(begin, end - begin));
    if (end < value.size()) text += value[end];
    begin = end + 1;
  }
  return text;
}

/// The words between spaces. Those in quotes may have spaces, and lose the quotes.
std::vector<std::string> words_of(std::string_view value) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : value) {
    if (c == '\'')
      quoted = !quoted;
    else if (c == ' ' && !quoted)
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

/// "nesterov=yes" for the word "nesterov" that run_fingerprint has of muon, and "beta1=0.9" for 0.9.
std::string setting_as_typed(std::string_view name, const std::string& word) {
  if (name == "nesterov") return word == name ? "nesterov=yes" : "nesterov=no";
  return fmt::format("{}={}", name, shortest(word));
}

} // namespace

std::string fact_as_typed(std::string_view fact, const std::string& value) {
  if (fact != "optimizer" && fact != "outer optimizer") return with_short_numbers(value);
  const std::vector<std::string> words = words_of(value);
  const std::vector<std::string_view> names = optimizer_setting_names(words[0]);
  if (words.size() != names.size() + 1) return with_short_numbers(value);
  std::string text = words[0];
  for (std::size_t i = 0; i < names.size(); ++i)
    if (const std::string& word = words[i + 1]; !word.empty())
      text += (text.find(':') == text.npos ? ':' : ',') + setting_as_typed(names[i], word);
  return text;
}

} // namespace mailgrad
