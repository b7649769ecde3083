#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace CLI {
class FormatterBase;
}

namespace mailgrad {

/// Columns of a help text.
inline constexpr std::size_t help_width = 100;

/// `text` in lines of at most `width` columns, broken between words; a word that is longer stands alone. All
/// lines but the first have `indent` spaces before them, which do not count.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent = 0);

/// A line of a list, "  name             what", with `what` wrapped.
std::string help_entry(const std::string& name, const std::string& what);

/// How the help of every command is laid out, with words that users know for kinds of values.
std::shared_ptr<CLI::FormatterBase> make_help_format();

} // namespace mailgrad
