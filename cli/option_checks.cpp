#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/options/interval.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace mailgrad {

namespace {

/// "must be a number from 0 to 1, not 'x'"
std::string refusal(const std::string& what, const std::string& word) {
  return fmt::format("must be {}, not '{}'", what, word);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string in_words(double least, double most) {
  if (least == std::numeric_limits<double>::lowest()) return "a finite number, such as 0.01";
  return fmt::format("a number from {:g} to {:g}", least, most);
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
  const std::string what = open ? fmt::format("a whole number from {} on", least)
                                : fmt::format("a whole number from {} to {}", least, most);
  return {[=](const std::string& word) {
            const auto n = parse_whole(word);
            if (n && *n >= least && *n <= most) return std::string();
            const bool is_too_large = open && !n && !word.empty() && std::ranges::all_of(word, is_digit);
            return refusal(is_too_large ? "a whole number below 2^64" : what, word);
          },
          ""};
}

CLI::Validator number(double least, double most) {
  return {[=](const std::string& word) {
            const auto x = parse_number(word);
            const bool right = x && std::isfinite(*x) && *x >= least && *x <= most;
            return right ? std::string() : refusal(in_words(least, most), word);
          },
          ""};
}

CLI::Validator interval_text() {
  return {[](const std::string& word) {
            try {
              parse_interval(word);
              return std::string();
            } catch (const std::invalid_argument& e) {
              return std::string(e.what());
            }
          },
          ""};
}

CLI::Validator one_of(std::vector<std::string> words) {
  std::string name = fmt::format("{}", fmt::join(words, "|"));
  return {[words = std::move(words)](const std::string& word) {
            return std::ranges::find(words, word) != words.end() ? std::string()
                                                                 : refusal(listed(words), word);
          },
          "", std::move(name)};
}

CLI::Validator file_name() {
  return {[](const std::string& name) {
            return name.empty() ? std::string("a file name is missing") : std::string();
          },
          ""};
}

std::vector<std::string> given_words(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    std::string word = "--" + option->get_lnames().front();
    const bool flag = option->get_expected_max() == 0;
    for (const std::string& value : option->results())
      if (!flag) word += (word.find('=') == std::string::npos ? '=' : ',') + value;
    words.push_back(std::move(word));
  }
  return words;
}

bool option_words::has(std::string_view option) const {
  return std::ranges::find(words_, option, option_of) != words_.end();
}

void option_words::drop(std::string_view option) {
  drop_if([&](std::string_view other) { return other == option; });
}

void option_words::drop(std::initializer_list<const char*> options) {
  for (const char* option : options) drop(option);
}

void option_words::drop_unless(const option_words& kept, std::initializer_list<const char*> options) {
  for (const char* option : options)
    if (!kept.has(option)) drop(option);
}

void option_words::set(std::string word) {
  drop(option_of(word));
  words_.push_back(std::move(word));
}

void option_words::set(const option_words& more) {
  for (const std::string& word : more.words_) drop(option_of(word));
  words_.insert(words_.end(), more.words_.begin(), more.words_.end());
}

} // namespace mailgrad
