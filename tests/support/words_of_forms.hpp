#pragma once

#include <string>
#include <vector>

namespace mailgrad::testing {

/// The words of the policies or cures that the library has, without their numbers: a test of all of them
/// finds a new one by itself.
template <class Form>
std::vector<std::string> words_of_forms(const std::vector<Form>& forms) {
  std::vector<std::string> words;
  for (const Form& form : forms) words.emplace_back(form.text.substr(0, form.text.find(':')));
  return words;
}

} // namespace mailgrad::testing
