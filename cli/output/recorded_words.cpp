#include <mailgrad/cli/output/recorded_words.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>

namespace mailgrad {

std::vector<std::string> given_words(const CLI::App& command, const std::vector<std::string>& without) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    if (std::ranges::find(without, name) != without.end()) continue;
    std::string word = "--" + name;
    const bool flag = option->get_expected_max() == 0;
    for (const std::string& value : option->results())
      if (!flag) word += (word.find('=') == std::string::npos ? '=' : ',') + value;
    words.push_back(std::move(word));
  }
  return words;
}

} // namespace mailgrad
