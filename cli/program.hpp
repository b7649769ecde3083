#pragma once

#include <mailgrad/cli/commands/commands.hpp>

#include <span>
#include <vector>

namespace mailgrad {

using command_maker = command (*)(CLI::App&);

/// The commands of the tool. `lab` makes that of the lab, whose options only its own program knows.
std::vector<command_maker> commands_of_tool(command_maker lab);

/// Runs a program of the tool: makes its commands, and does what `words` say, of which the first is the name
/// of the program. Prints what went wrong, and returns an exit code. To be called once, by main().
int run_program(std::span<const command_maker> makers, std::vector<const char*> words);

} // namespace mailgrad
