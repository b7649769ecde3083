#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/printable.hpp>

#include <fmt/format.h>

#include <iostream>

namespace mailgrad {

void say_failure(std::string_view words) { std::cerr << fmt::format("mailgrad: {}\n", printable(words)); }
void say_line(std::string_view words) { std::cerr << fmt::format("{}\n", printable(words)); }

} // namespace mailgrad
