#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
} // namespace CLI

namespace mailgrad {

/// Says what is wrong with the command line, in one line that names the nearest right option or command.
std::string explain(const CLI::App& app, const CLI::ParseError& e);

} // namespace mailgrad
