#pragma once

#include <mailgrad/cli/report/gnuplot.hpp>

#include <string>
#include <string_view>

// Parts of an HTML page that loads nothing from elsewhere and runs no script.

namespace mailgrad {

/// Any text as text of a page, also within an attribute.
std::string as_html(std::string_view text);

/// The page up to its heading.
std::string html_begin(std::string_view title, std::string_view heading);
/// What ends it.
std::string html_end();

/// A picture, drawn into the page, and its caption below it; without a script, its title and its caption.
///
/// Errors  as draw().
std::string html_figure(const picture& p);

} // namespace mailgrad
