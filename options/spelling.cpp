#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace mailgrad {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names) {
  const auto nearest = std::ranges::min_element(
      names, {}, [word](std::string_view name) { return edit_distance(word, name); });
  return nearest == names.end() ? std::string_view{} : *nearest;
}

bool is_near(std::string_view word, std::size_t edits) noexcept {
  const std::size_t least = word.size() < 4 ? 1 : 2;
  return edits <= std::max(least, word.size() / 3);
}

std::string_view meant_name(std::string_view word, std::span<const std::string_view> names) {
  const std::string_view nearest = nearest_name(word, names);
  if (!nearest.empty() && is_near(word, edit_distance(word, nearest))) return nearest;
  const auto one_begins_the_other = [word](std::string_view name) {
    return (name.size() >= 2 && word.starts_with(name)) || (word.size() >= 3 && name.starts_with(word));
  };
  const auto found = std::ranges::find_if(names, one_begins_the_other);
  return found == names.end() ? std::string_view{} : *found;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> names) {
  const std::string_view meant = meant_name(word, names);
  if (!meant.empty()) return fmt::format("did you mean '{}'?", meant);
  std::string text;
  for (const std::string_view name : names) text.append(text.empty() ? "known are: " : ", ").append(name);
  return text;
}

std::vector<std::string_view> words_between(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t end = text.find(separator);
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end + 1);
  }
}

named_choice::named_choice(std::string_view whole) : text(whole), name(name_of_choice(whole)) {
  if (name.size() < text.size()) arguments = words_between(text.substr(name.size() + 1), ',');
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view harmless =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-";
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
