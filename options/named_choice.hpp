#pragma once

#include <string_view>
#include <vector>

namespace mailgrad {

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

} // namespace mailgrad
