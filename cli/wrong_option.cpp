#include <mailgrad/cli/wrong_option.hpp>

#include <mailgrad/tensor/nearest_name.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

namespace mailgrad {

namespace {

const CLI::App& parsed_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen.front();
}

/// Options of the command, or the commands themselves, whichever the word looks like.
std::vector<std::string> possible_words(const CLI::App& app, std::string_view word) {
  std::vector<std::string> words;
  if (!word.starts_with('-')) {
    for (const CLI::App* sub : app.get_subcommands({})) words.push_back(sub->get_name());
    return words;
  }
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  return words;
}

/// As CLI11 has it, but for what nobody would say so.
std::string in_words(const CLI::ParseError& e) {
  constexpr std::string_view flag_with_value = " was given a disallowed flag override";
  const std::string_view why = e.what();
  if (!why.ends_with(flag_with_value)) return std::string(why);
  return "--" + std::string(why.substr(0, why.size() - flag_with_value.size())) + " takes no value";
}

} // namespace

std::string explain(const CLI::App& app, const CLI::ParseError& e) {
  const CLI::App& command = parsed_command(app);
  const std::string name = command.get_parent() ? "mailgrad " + command.get_name() : "mailgrad";
  const std::vector<std::string> extras = app.remaining(true);
  if (extras.empty()) return in_words(e) + "; '" + name + " --help' lists what it takes";

  const std::string word = extras.front().substr(0, extras.front().find('='));
  const std::vector<std::string> possible = possible_words(command, word);
  const std::vector<std::string_view> views(possible.begin(), possible.end());
  const std::string what = word.starts_with('-') ? "option" : "argument";
  std::string text = name + " has no " + what + " '" + word + "'";
  if (!word.starts_with('-') && !views.empty()) return text + "; " + suggestion(word, views);
  const std::string_view nearest = nearest_name(word, views);
  const std::string_view letters = std::string_view(word).substr(std::min<std::size_t>(2, word.size()));
  if (!nearest.empty() && is_near(letters, edit_distance(word, nearest)))
    return text + "; did you mean '" + std::string(nearest) + "'?";
  return text + "; '" + name + " --help' lists what it takes";
}

} // namespace mailgrad
