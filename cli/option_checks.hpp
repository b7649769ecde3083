#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

// Checks of an option's value. Each says in one line what a right value is, so that the parser never refuses
// a value with its own text.

/// Accepts whole numbers from `least` to `most`.
CLI::Validator whole_number(std::uint64_t least,
                            std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// Accepts finite numbers from `least` to `most`.
CLI::Validator number(double least = std::numeric_limits<double>::lowest(),
                      double most = std::numeric_limits<double>::max());

/// Accepts what parse_interval() reads.
CLI::Validator interval_text();

/// Accepts one of these words. Its name has them all, with | between them.
CLI::Validator one_of(std::vector<std::string> words);

/// Accepts any text but an empty one, which often comes from an unset variable of a script.
CLI::Validator file_name();

/// The options of a parsed command as the user gave them, each as "--batch=32". A recording keeps them, so
/// that a replay has the same options.
std::vector<std::string> given_words(const CLI::App& command);

/// The options of a command as it was typed, such as "--save=x" or "--quiet".
class option_words {
public:
  option_words() = default;
  explicit option_words(std::vector<std::string> words) : words_(std::move(words)) {}

  /// "--save=x" and "--save" are words of the same option.
  static std::string_view option_of(std::string_view word) { return word.substr(0, word.find('=')); }

  bool has(std::string_view option) const;
  void drop(std::string_view option);
  void drop(std::initializer_list<const char*> options);
  /// Drops the options of which this is said.
  template <class Says>
  void drop_if(const Says& says) {
    std::erase_if(words_, [&](const std::string& word) { return says(option_of(word)); });
  }
  /// Drops these, but for those that `kept` has.
  void drop_unless(const option_words& kept, std::initializer_list<const char*> options);
  /// Takes the place of the word of the same option, if there is one.
  void set(std::string word);
  /// The same for all words of `more`.
  void set(const option_words& more);

  const std::vector<std::string>& all() const noexcept { return words_; }
  /// Gives the words away.
  std::vector<std::string> take() { return std::move(words_); }

private:
  std::vector<std::string> words_;
};

} // namespace mailgrad
