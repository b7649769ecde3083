#include <mailgrad/cli/output/help_format.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad {

namespace {

/// Wraps descriptions, which the parser's own format leaves in one line.
class help_format final : public CLI::Formatter {
public:
  help_format() {
    const std::pair<const char*, const char*> labels[] = {
        {"UINT", "N"}, {"FLOAT", "X"}, {"TEXT", "WORD"}, {"Needs", "only with"}, {"Excludes", "not with"}};
    for (const auto& [parsers, ours] : labels) label(parsers, ours);
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description(),
                   help_width - get_column_width()); // the parser indents each line
  }
};

} // namespace

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string all;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > 0 && column + 1 + end > width) {
      all.append("\n").append(indent, ' ');
      column = 0;
    } else if (column > 0) {
      all += ' ';
      ++column;
    }
    all += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

std::string help_entry(const std::string& name, const std::string& what) {
  constexpr std::size_t indent = 19;
  std::string text = "  " + name + ' ';
  if (text.size() > indent)
    text.append("\n").append(indent, ' ');
  else
    text.resize(indent, ' ');
  return text + wrapped(what, help_width - indent, indent) + '\n';
}

std::shared_ptr<CLI::FormatterBase> make_help_format() { return std::make_shared<help_format>(); }

} // namespace mailgrad
