#include <mailgrad/cli/commands/commands.hpp>
#include <mailgrad/cli/exit_code.hpp>

#include <mailgrad/tensor/device.hpp>

#include <CLI/CLI.hpp>

#include <iostream>

namespace mailgrad {

command make_devices_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("devices", "List the devices of this machine that can train");
  return {parser, [] {
            for (const device d : available_devices()) std::cout << to_string(d) << '\n';
            return exit_code::done;
          }};
}

} // namespace mailgrad
