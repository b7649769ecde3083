#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/lab/lab_experiment.hpp>
#include <mailgrad/cli/lab/lab_run.hpp>
#include <mailgrad/cli/lab/lab_sweep.hpp>
#include <mailgrad/cli/lab/lab_what_if.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/program.hpp>

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

namespace {

void add_experiment(CLI::App& parser, const lab::experiment& e, experiment_args& w) {
  CLI::App* one = parser.add_subcommand(std::string(e.name), std::string(e.claim));
  one->group("Experiments");
  option_table t(*one);
  t.add("--quick", w.quick, "In at most 15 seconds, with fewer seeds and wider tolerances", overridable);
  t.add("--seed", w.seed, "The first of the seeds", whole_number(0));
  if (e.takes_data)
    t.add("--data", w.data,
          "Train on this data set of classes, a name, a folder or a file, and not on samples that are drawn "
          "by chance; then the speeds are compared, too",
          value_name("NAME"));
  t.add("--output", w.output, "Write tables (CSV), pictures (SVG and PNG) and one HTML page into this folder",
        path("DIR"));
  t.add("--quiet", w.quiet, "Print the claims alone, without what the experiment is about");
  one->footer("Paper: " + std::string(e.paper) +
              "\nExit codes: 0 all claims hold, 1 some fail. The program gnuplot draws the pictures.");
}

void add_sweep(CLI::App& parser, sweep_args& w) {
  CLI::App* sweep = parser.add_subcommand(
      "sweep", "Run a grid of such trainings on all cores: tables, medians over seeds, pictures and a page");
  option_table t(*sweep);
  t.add("SWEEP", w.file, "The grid, as JSON; see the example below", path("FILE"), required);
  t.add("--out", w.folder,
        "The folder for sweep.csv, curves.csv, summary.csv, the pictures and sweep.html; the same command "
        "goes on where an earlier one was stopped",
        path("DIR"), required);
  t.add("--jobs", w.jobs, "How many trainings run at once; by default as many as this process may use cores",
        whole_number(1, 4096));
  t.add("--restart", w.restart, "Set rows that the folder has already aside, as NAME.old");
  t.add("--quiet", w.quiet, "Show no progress, only the results and what goes wrong");
  sweep->footer(sweep_in_help());
}

void add_run(CLI::App& parser, train_args& w) {
  CLI::App* run = parser.add_subcommand(
      "run", "Train with simulated workers, whose steps take as long as a law says; gradients are real");
  option_table table(*run);
  add_lab_run(table, w);
  run->footer(delays_in_help() + '\n' + models() + policies_and_cures() + '\n' + default_learning_rates() +
              '\n' +
              wrapped("All times are virtual: the clock jumps to the end of the next step, and messages and "
                      "updates take no time. The same options give the same run, to the bit.",
                      help_width) +
              "\n\nExample:\n"
              "  mailgrad lab run --workers 1000 --delays gamma:cv=0.1 --policy ssp:3 --model softmax \\\n"
              "    --steps 20000 --batch 8");
}

void add_what_if(CLI::App& parser, what_if_args& w) {
  CLI::App* what_if = parser.add_subcommand(
      "what-if", "Train a recorded run again in virtual time, under another policy or with other speeds");
  option_table t(*what_if);
  add_what_if_options(t, w);
  what_if->footer(what_if_in_help());
}

/// The values of all subcommands.
struct args_of_lab {
  train_args run = lab_args();
  what_if_args what_if;
  sweep_args sweep;
  experiment_args experiment;
};

/// Does what the subcommand that was given says.
int run_as_asked(const CLI::App& parser, const args_of_lab& words) {
  const CLI::App& given = *parser.get_subcommands().front();
  const std::string asked = given.get_name();
  if (asked == "run") {
    option_args args_of_run(given_args(given));
    args_of_run.drop("--quiet");
    return run_in_lab(words.run, args_of_run.take());
  }
  if (asked == "what-if") return run_what_if(words.what_if);
  if (asked == "sweep") return run_sweep(words.sweep);
  for (const lab::experiment& e : lab::experiments())
    if (e.name == asked) return run_experiment(e, words.experiment);
  std::cout << list_of_experiments();
  return exit_code::done;
}

command make_commands_of_lab(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("lab", "Experiments on staleness, in virtual time");
  parser->require_subcommand(1);
  const auto words = std::make_shared<args_of_lab>();
  add_run(*parser, words->run);
  add_what_if(*parser, words->what_if);
  add_sweep(*parser, words->sweep);
  parser->add_subcommand("list", "Name all experiments, a line each");
  for (const lab::experiment& e : lab::experiments()) add_experiment(*parser, e, words->experiment);
  return {parser, [parser, words] { return run_as_asked(*parser, *words); }};
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
