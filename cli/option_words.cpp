#include <mailgrad/cli/option_words.hpp>

#include <algorithm>

namespace mailgrad {

bool option_words::has(std::string_view option) const {
  return std::ranges::find(words_, option, option_of) != words_.end();
}

void option_words::drop(std::string_view option) {
  std::erase_if(words_, [&](const std::string& word) { return option_of(word) == option; });
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
