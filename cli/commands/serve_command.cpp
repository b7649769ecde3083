#include <mailgrad/cli/commands/commands.hpp>
#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/commands/usual_choices.hpp>
#include <mailgrad/cli/output/help_format.hpp>

#include <CLI/CLI.hpp>

#include <memory>

namespace mailgrad {

command make_serve_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("serve", "Train a model with workers that join from other processes");
  auto words = std::make_shared<train_words>(open_words());
  words->devices = "cpu:0"; // workers bring them
  words->remote.serve = true;
  option_table table(*parser);
  add_options(table, *words);
  add_server(table, words->remote);
  add_wire(table, words->remote);
  parser->footer(
      wrapped(
          "Holds coordinator, feeder and shards, and begins when --workers have joined by 'mailgrad join'. "
          "More may join later if --seats has places for them, and when all are gone the run waits for "
          "others as --when-alone says. The other options are those of 'mailgrad train'. 'mailgrad status', "
          "'switch' and 'stop' ask the run from anywhere. Ctrl-C ends the run and all its processes in good "
          "order.",
          help_width) +
      "\n\nExample:\n"
      "  mailgrad serve --listen 127.0.0.1:7000 --workers 2 --model lenet --policy ssp:2\n"
      "  mailgrad join 127.0.0.1:7000 --devices cpu:0,cpu:1     # from another shell");
  return {parser, [parser, words] { return train_as_told(*parser, *words); }};
}

} // namespace mailgrad
