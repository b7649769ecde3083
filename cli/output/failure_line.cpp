#include <mailgrad/cli/output/failure_line.hpp>

#include <fmt/format.h>

#include <iostream>

namespace mailgrad {

void say_failure(std::string_view words) { std::cerr << fmt::format("mailgrad: {}\n", words); }
void say_line(std::string_view words) { std::cerr << fmt::format("{}\n", words); }

} // namespace mailgrad
