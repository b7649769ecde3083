#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace mailgrad {

/// A subcommand: its options, and what it does once they are parsed. `run` returns an exit code.
struct command {
  CLI::App* parser;
  std::function<int()> run;
};

command make_train_command(CLI::App& app);
command make_devices_command(CLI::App& app);
command make_graph_command(CLI::App& app);

} // namespace mailgrad
