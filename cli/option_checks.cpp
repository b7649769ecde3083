#include <mailgrad/cli/option_checks.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

namespace mailgrad {

namespace {

template <class Number>
bool read(std::string_view word, Number& n) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  return error == std::errc{} && end == word.data() + word.size();
}

std::string in_digits(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", x);
  return text;
}

/// "must be a number from 0 to 1, not 'x'"
std::string refusal(const std::string& what, const std::string& word) {
  return "must be " + what + ", not '" + word + "'";
}

std::string in_words(double least, double most) {
  if (least == std::numeric_limits<double>::lowest()) return "a finite number, such as 0.01";
  return "a number from " + in_digits(least) + " to " + in_digits(most);
}

/// "automatic, classification or regression"
std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

} // namespace

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  const bool open = most == std::numeric_limits<std::uint64_t>::max();
  const std::string what = "a whole number from " + std::to_string(least) +
                           (open ? std::string(" on") : " to " + std::to_string(most));
  return {[=](const std::string& word) {
            std::uint64_t n = 0;
            return read(word, n) && n >= least && n <= most ? std::string() : refusal(what, word);
          },
          ""};
}

CLI::Validator number(double least, double most) {
  return {[=](const std::string& word) {
            double x = 0;
            const bool right = read(word, x) && std::isfinite(x) && x >= least && x <= most;
            return right ? std::string() : refusal(in_words(least, most), word);
          },
          ""};
}

CLI::Validator one_of(std::vector<std::string> words) {
  return {[words = std::move(words)](const std::string& word) {
            return std::ranges::find(words, word) != words.end() ? std::string()
                                                                 : refusal(listed(words), word);
          },
          ""};
}

CLI::Validator file_name() {
  return {[](const std::string& name) {
            return name.empty() ? std::string("a file name is missing") : std::string();
          },
          ""};
}

} // namespace mailgrad
