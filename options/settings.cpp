#include <mailgrad/options/settings.hpp>

#include <mailgrad/options/number.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

std::string in_words(std::uint64_t least, std::uint64_t most) {
  if (most < std::numeric_limits<std::uint64_t>::max())
    return fmt::format("a whole number from {} to {}", least, most);
  return least == 0 ? "a whole number" : fmt::format("a whole number from {} on", least);
}

std::string in_words(double least, double below) {
  if (std::isinf(below)) return fmt::format("at least {:g}", least);
  return fmt::format("at least {:g} and less than {:g}", least, below);
}

} // namespace

settings::settings(std::string_view what, std::string_view text) : what_(what), text_(text) {
  const named_choice choice(text);
  name_ = choice.name;
  if (choice.arguments.size() == 1 && choice.arguments.front().empty()) return; // "adam:"
  for (const std::string_view word : choice.arguments) {
    const std::size_t equals = word.find('=');
    if (word.empty()) fail("a setting is missing at a comma; write key=value");
    if (equals == std::string_view::npos) fail(fmt::format("'{}' is no setting; write key=value", word));
    const std::string_view key = word.substr(0, equals);
    if (std::ranges::find(all_, key, &setting::key) != all_.end()) fail(fmt::format("'{}' comes twice", key));
    all_.push_back({key, word.substr(equals + 1)});
  }
}

void settings::fail(std::string_view why) const {
  throw std::invalid_argument(fmt::format("{} '{}': {}", what_, text_, why));
}

void settings::refuse_value(const setting& s, std::string_view must_be) const {
  fail(fmt::format("{} must be {}, not '{}'", s.key, must_be, s.value));
}

const settings::setting* settings::find(std::string_view key) {
  known_.push_back(key);
  const auto found = std::ranges::find(all_, key, &setting::key);
  if (found == all_.end()) return nullptr;
  found->taken = true;
  return &*found;
}

std::uint64_t settings::take_whole(std::string_view key, std::uint64_t otherwise, std::uint64_t least,
                                   std::uint64_t most) {
  const setting* s = find(key);
  if (!s) return otherwise;
  const auto number = parse_whole(s->value);
  if (!number || *number < least || *number > most) refuse_value(*s, in_words(least, most));
  return *number;
}

double settings::take_number(std::string_view key, double otherwise, double least, double below) {
  const setting* s = find(key);
  if (!s) return otherwise;
  const auto number = parse_number(s->value);
  if (!number || !(*number >= least && *number < below)) refuse_value(*s, in_words(least, below));
  return *number;
}

float settings::take_rate(std::string_view key, float otherwise) {
  const setting* s = find(key);
  if (!s) return otherwise;
  const auto rate = static_cast<float>(parse_number(s->value).value_or(1));
  if (!(rate >= 0 && rate < 1)) refuse_value(*s, in_words(0.0, 1.0));
  return rate;
}

std::string_view settings::take_text(std::string_view key, std::string_view otherwise) {
  const setting* s = find(key);
  return s ? s->value : otherwise;
}

std::size_t settings::take_word(std::string_view key, std::size_t otherwise,
                                std::span<const std::string_view> words) {
  const setting* s = find(key);
  if (!s) return otherwise;
  const auto found = std::ranges::find(words, s->value);
  if (found == words.end())
    fail(fmt::format("there is no {} '{}'; {}", key, s->value, suggestion(s->value, words)));
  return static_cast<std::size_t>(found - words.begin());
}

bool settings::take_yes(std::string_view key, bool otherwise) {
  const setting* s = find(key);
  if (!s) return otherwise;
  if (s->value != "yes" && s->value != "no") refuse_value(*s, "yes or no");
  return s->value == "yes";
}

std::vector<std::size_t> settings::take_widths(std::string_view key, std::vector<std::size_t> otherwise,
                                               std::size_t most) {
  const setting* s = find(key);
  if (!s) return otherwise;
  if (s->value.empty()) return {};
  std::vector<std::size_t> widths;
  for (const std::string_view word : words_between(s->value, 'x')) {
    const auto width = parse_whole(word);
    if (!width || *width == 0 || *width > most) refuse_value(*s, "widths such as 512x256");
    widths.push_back(*width);
  }
  return widths;
}

void settings::refuse(std::string_view key, std::string_view why) const {
  for (const setting& s : all_)
    if (!s.taken && s.key == key) fail(fmt::format("there is no setting '{}'; {}", key, why));
}

void settings::require_nothing_left() const {
  for (const setting& s : all_) {
    if (s.taken) continue;
    if (known_.empty()) fail(fmt::format("'{}' has no settings", name_));
    fail(fmt::format("there is no setting '{}'; {}", s.key, suggestion(s.key, known_)));
  }
}

} // namespace mailgrad
