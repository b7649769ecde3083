#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/fitted_lines.hpp>
#include <mailgrad/cli/output/printable.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <iostream>
#include <regex>
#include <string>

namespace mailgrad {

namespace {

/// Without " (csv_options::left_out)".
std::string without_names_of_library(std::string_view words) {
  static const std::regex name(R"( \([a-z_]+::[a-z_]+\))");
  return std::regex_replace(std::string(words), name, "");
}

} // namespace

void say_failure(std::string_view words) {
  std::cerr << fmt::format("mailgrad: {}\n", printable(without_names_of_library(words)));
}
void say_warning(std::string_view words) {
  std::cerr << fitted_to(STDERR_FILENO,
                         fmt::format("mailgrad: warning: {}\n", printable(without_names_of_library(words))));
}
void say_line(std::string_view words) { std::cerr << fmt::format("{}\n", printable(words)); }

} // namespace mailgrad
