#include <mailgrad/cli/output/fitted_lines.hpp>

#include <mailgrad/cli/output/help_format.hpp>
#include <mailgrad/cli/output/progress_display.hpp>
#include <mailgrad/cli/output/summary_column.hpp>

#include <unistd.h>

#include <sstream>

namespace mailgrad {

std::string fitted_lines(const std::string& text, std::size_t columns) {
  const std::size_t indent = summary_column("").size();
  std::string all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line); all += '\n') {
    const bool fits = line.size() <= columns || line.starts_with(' ') || columns <= indent;
    all += fits ? line : line.substr(0, indent) + wrapped(line.substr(indent), columns - indent, indent);
  }
  return all;
}

std::string fitted_to(int descriptor, const std::string& text) {
  return isatty(descriptor) == 1 ? fitted_lines(text, progress_display::terminal_columns()) : text;
}

} // namespace mailgrad
