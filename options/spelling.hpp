#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// The name that a mistyped word most likely stands for: the one fewest edits away, the first of equals.
/// Source  Damerau, CACM 7(3), 1964: insert, delete, replace a letter, or swap two neighbours, each once.
/// Errors  an empty view if there are no names.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names);

/// Whether a word may stand for a name so many edits away. The limit is a third of its letters, but at least
/// two for words of four or more letters, and at least one for shorter words.
bool is_near(std::string_view word, std::size_t edits) noexcept;

/// The name that `word` may stand for: the nearest one if is_near(), otherwise a name that begins `word`, as
/// "batch" begins "batchsize", or that `word` begins. An empty view if there is none.
std::string_view meant_name(std::string_view word, std::span<const std::string_view> names);

/// What to write in place of `word`: "did you mean 'adam'?" if meant_name() finds a name, otherwise "known
/// are: sgd, adam"; empty if there are no names.
std::string suggestion(std::string_view word, std::span<const std::string_view> names);

/// Edits between two words.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// "name" or "name:argument,argument", the form of every choice that is made by a name: a policy, a cure, an
/// optimiser, a schedule, a model. The text must outlive it.
///
///   named_choice("dssp:1,4")  name "dssp", arguments "1" and "4"
///   named_choice("dssp:")     name "dssp", one empty argument
///   named_choice("dssp")      name "dssp", no argument
struct named_choice {
  explicit named_choice(std::string_view whole);

  std::string_view text;
  std::string_view name;
  std::vector<std::string_view> arguments;
};

/// The text before the first colon, all of it if there is none.
constexpr std::string_view name_of_choice(std::string_view text) { return text.substr(0, text.find(':')); }

/// The words of `text` between separators; one more than there are separators, each possibly empty.
std::vector<std::string_view> words_between(std::string_view text, char separator);

/// Replaces a name in the text of an option, wherever it stands whole: "./a.so" in "async, ./a.so:2@100", but
/// not in "lib/a.so". The characters around a whole name are spaces, and what the grammars of options put
/// between names.
inline std::string with_name_replaced(std::string text, std::string_view from, std::string_view to) {
  constexpr std::string_view around = " ,:@;='\"()";
  const auto ends = [&](std::size_t at) { return at >= text.size() || around.find(text[at]) != around.npos; };
  for (std::size_t at = text.find(from); !from.empty() && at != text.npos;) {
    const bool whole = (at == 0 || ends(at - 1)) && ends(at + from.size());
    if (whole) text.replace(at, from.size(), to);
    at = text.find(from, at + (whole ? to.size() : 1));
  }
  return text;
}

/// A text as one word of a command line, for messages: as it is, or in single quotes if a shell would read it
/// otherwise.
std::string shell_word(std::string_view text);

} // namespace mailgrad
