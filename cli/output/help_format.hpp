#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace CLI {
class FormatterBase;
}

namespace mailgrad {

/// The width of a help text in columns.
inline constexpr std::size_t help_width = 100;

/// Breaks `text` between words into lines of at most `width` columns; a longer word gets a line of its own.
/// All lines but the first begin with `indent` spaces, which do not count as columns.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent = 0);

/// A line of a list, "  name             what", with `what` wrapped.
std::string help_entry(const std::string& name, const std::string& what);

/// The layout of the help of every command, with names for kinds of values that users know.
std::shared_ptr<CLI::FormatterBase> make_help_format();

} // namespace mailgrad
