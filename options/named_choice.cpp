#include <mailgrad/options/named_choice.hpp>

namespace mailgrad {

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

} // namespace mailgrad
