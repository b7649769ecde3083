#include <mailgrad/engine/plan/fact_as_typed.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <vector>

namespace mailgrad {

namespace {

/// The settings of a rule in the order in which its fact has them.
struct rule_settings {
  std::string_view rule;
  std::array<std::string_view, 7> names;
};

constexpr std::array<rule_settings, 11> all_settings{{
    {"momentum", {"momentum"}},
    {"nesterov", {"momentum"}},
    {"adagrad", {"epsilon", "initial_sum"}},
    {"rmsprop", {"alpha", "epsilon"}},
    {"adam", {"beta1", "beta2", "epsilon"}},
    {"adamw", {"beta1", "beta2", "epsilon"}},
    {"delayed-nesterov", {"momentum", "period", "early"}},
    {"lars", {"momentum", "trust"}},
    {"lamb", {"beta1", "beta2", "epsilon"}},
    {"muon", {"momentum", "nesterov", "adamw", "adamw_rate", "beta1", "beta2", "epsilon"}},
    {"shampoo", {"epsilon", "every", "largest"}},
}};

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

/// "nesterov=yes" for the word "nesterov" of muon, and "beta1=0.9" for 0.9.
std::string setting_as_typed(std::string_view name, const std::string& word) {
  if (name == "nesterov") return word == name ? "nesterov=yes" : "nesterov=no";
  return fmt::format("{}={}", name, shortest(word));
}

} // namespace

std::string fact_as_typed(std::string_view fact, const std::string& value) {
  if (fact != "optimizer" && fact != "outer optimizer") return with_short_numbers(value);
  const std::vector<std::string> words = words_of(value);
  const auto known = std::ranges::find(all_settings, std::string_view(words[0]), &rule_settings::rule);
  if (known == all_settings.end() || words.size() > known->names.size() + 1) return with_short_numbers(value);
  std::string text = words[0];
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view name = known->names[i - 1];
    if (name.empty()) return with_short_numbers(value);
    if (!words[i].empty()) text += (i == 1 ? ':' : ',') + setting_as_typed(name, words[i]);
  }
  return text;
}

} // namespace mailgrad
