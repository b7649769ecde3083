#include <mailgrad/cli/lab/lab_commands.hpp>

namespace mailgrad {

namespace {

command make_commands_of_lab(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("lab", "Experiments on staleness, in virtual time");
  parser->require_subcommand(1);
  std::vector<command> all{make_lab_run(*parser), make_lab_what_if(*parser), make_lab_sweep(*parser)};
  all.push_back({parser->add_subcommand("list", "Name all experiments, a line each"), list_experiments});
  for (const lab::experiment& e : lab::experiments()) all.push_back(make_lab_experiment(*parser, e));
  return {parser, [all] {
            return std::ranges::find_if(all, [](const command& c) { return c.parser->parsed(); })->run();
          }};
}

} // namespace

} // namespace mailgrad

// `mailgrad lab WORDS` runs `mailgrad-lab WORDS`, and `mailgrad completion` runs `mailgrad-lab completion`,
// since only this program knows the options of all commands.
int main(int argc, char** argv) {
  std::vector<const char*> words{"mailgrad"};
  if (argc < 2 || std::string_view(argv[1]) != "completion") words.push_back("lab");
  words.insert(words.end(), argv + 1, argv + argc);
  return mailgrad::run_program(mailgrad::commands_of_tool(mailgrad::make_commands_of_lab), words);
}
