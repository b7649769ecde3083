#include <mailgrad/cli/commands/commands.hpp>

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace mailgrad {

std::filesystem::path program_of_lab() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "mailgrad-lab";
}

int become_lab(std::vector<std::string> words) {
  const auto program = program_of_lab();
  words.insert(words.begin(), program.filename());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  const int why = errno;
  throw std::runtime_error("the lab is a program of its own, and " + program.string() +
                           " cannot be run: " + std::generic_category().message(why) +
                           ". 'cmake --build --preset release' builds it.");
}

command make_lab_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("lab", "Experiments on staleness, in virtual time");
  parser->prefix_command(); // all words are left to the lab
  parser->set_help_flag();
  return {parser, [parser] { return become_lab(parser->remaining()); }};
}

} // namespace mailgrad
