#pragma once

#include <mailgrad/cli/commands/commands.hpp>

#include <span>
#include <vector>

namespace mailgrad {

using command_maker = command (*)(CLI::App&);

/// Runs a program of the tool: makes its commands, and does what `words` say, of which the first is the name
/// of the program. Prints what went wrong, and returns an exit code. To be called once, by main().
int run_program(std::span<const command_maker> makers, std::vector<const char*> words);

} // namespace mailgrad
