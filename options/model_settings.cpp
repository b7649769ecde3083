#include <mailgrad/options/model_settings.hpp>

#include <mailgrad/options/nearest_name.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace mailgrad {

namespace {

std::string in_quotes(std::string_view text) { return '\'' + std::string(text) + '\''; }

/// Takes what stands before the next `separator` off the front of `text`.
std::string_view next_word(std::string_view& text, char separator) {
  const std::string_view word = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number n{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

} // namespace

model_settings::model_settings(std::string_view text) : text_(text), name_(next_word(text, ':')) {
  if (text.ends_with(',')) fail("a setting is missing behind the last comma; write key=value");
  while (!text.empty()) {
    const std::string_view part = next_word(text, ',');
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) fail(in_quotes(part) + " is no setting; write key=value");
    const std::string_view key = part.substr(0, equals);
    if (std::ranges::find(all_, key, &setting::key) != all_.end()) fail(in_quotes(key) + " comes twice");
    all_.push_back({key, part.substr(equals + 1)});
  }
}

void model_settings::fail(std::string_view why) const {
  throw std::invalid_argument("model " + in_quotes(text_) + ": " + std::string(why));
}

void model_settings::refuse(const setting& s, std::string_view must_be) const {
  fail(std::string(s.key) + " must be " + std::string(must_be) + ", not " + in_quotes(s.value));
}

model_settings::setting* model_settings::find(std::string_view key) {
  known_.push_back(key);
  const auto found = std::ranges::find(all_, key, &setting::key);
  if (found == all_.end()) return nullptr;
  found->taken = true;
  return &*found;
}

std::size_t model_settings::take_number(std::string_view key, std::size_t otherwise, std::size_t least,
                                        std::size_t most) {
  const setting* s = find(key);
  if (!s) return otherwise;
  const auto number = read_number<std::size_t>(s->value);
  if (!number || *number < least || *number > most)
    refuse(*s, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return *number;
}

float model_settings::take_rate(std::string_view key, float otherwise) {
  const setting* s = find(key);
  if (!s) return otherwise;
  const auto rate = read_number<float>(s->value);
  if (!rate || !(*rate >= 0 && *rate < 1)) refuse(*s, "at least 0 and below 1");
  return *rate;
}

std::size_t model_settings::take_word(std::string_view key, std::size_t otherwise,
                                      std::span<const std::string_view> words) {
  const setting* s = find(key);
  if (!s) return otherwise;
  const auto found = std::ranges::find(words, s->value);
  if (found == words.end())
    fail("there is no " + std::string(key) + ' ' + in_quotes(s->value) + "; " + suggestion(s->value, words));
  return static_cast<std::size_t>(found - words.begin());
}

bool model_settings::take_yes(std::string_view key, bool otherwise) {
  static constexpr std::array<std::string_view, 2> words{"no", "yes"};
  const setting* s = find(key);
  if (!s) return otherwise;
  if (std::ranges::find(words, s->value) == words.end()) refuse(*s, "yes or no");
  return s->value == "yes";
}

std::vector<std::size_t> model_settings::take_widths(std::string_view key, std::vector<std::size_t> otherwise,
                                                     std::size_t most) {
  const setting* s = find(key);
  if (!s) return otherwise;
  std::vector<std::size_t> widths;
  if (s->value.ends_with('x')) refuse(*s, "widths such as 512x256");
  for (std::string_view rest = s->value; !rest.empty();) {
    const std::string_view word = next_word(rest, 'x');
    const auto width = read_number<std::size_t>(word);
    if (!width || *width == 0 || *width > most)
      fail(std::string(key) + " must be widths such as 512x256, not " + in_quotes(word));
    widths.push_back(*width);
  }
  return widths;
}

void model_settings::require_nothing_left() const {
  for (const setting& s : all_) {
    if (s.taken) continue;
    if (known_.empty()) fail("this model has no settings");
    fail("there is no setting " + in_quotes(s.key) + "; " + suggestion(s.key, known_));
  }
}

} // namespace mailgrad
