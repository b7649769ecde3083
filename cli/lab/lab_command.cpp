#include <mailgrad/cli/commands/commands.hpp>
#include <mailgrad/cli/commands/train_help.hpp>
#include <mailgrad/cli/lab/delay_help.hpp>
#include <mailgrad/cli/lab/lab_run.hpp>
#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/cli/output/help_format.hpp>
#include <mailgrad/cli/output/recorded_words.hpp>

#include <CLI/CLI.hpp>

#include <memory>

namespace mailgrad {

namespace {

constexpr std::uint64_t most_simulated = 1'000'000;

void add_lab_options(CLI::App& parser, train_words& w) {
  add_data_options(parser, w);
  const std::string group = "How to run it";
  parser.add_option("--workers", w.simulated, "How many workers are simulated, all on this thread")
      ->check(whole_number(1, most_simulated))
      ->required()
      ->group(group);
  add_delay_options(parser, w);
  add_policy_options(parser, w);
  add_optimizer_options(parser, w);
  add_local_step_options(parser, w);
  add_result_options(parser, w);
  add_text_options(parser, w);
}

} // namespace

command make_lab_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("lab", "Experiments on staleness, in virtual time");
  parser->require_subcommand(1);
  CLI::App* run = parser->add_subcommand(
      "run", "Train with simulated workers, whose steps take as long as a law says; gradients are real");
  const auto words = std::make_shared<train_words>();
  words->delays = "exp";
  add_lab_options(*run, *words);
  run->footer(delays_in_help() + '\n' + models() + policies_and_cures() + '\n' + default_learning_rates() +
              '\n' +
              wrapped("All times are virtual: the clock jumps to the end of the next step, and messages and "
                      "updates take no time. The same options give the same run, to the bit.",
                      help_width) +
              "\n\nExample:\n"
              "  mailgrad lab run --workers 1000 --delays gamma:cv=0.1 --policy ssp:3 --model softmax \\\n"
              "    --steps 20000 --batch 8");
  return {parser, [run, words] { return run_in_lab(*words, given_words(*run, {"quiet"})); }};
}

} // namespace mailgrad
