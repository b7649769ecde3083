#pragma once

#include <string>
#include <string_view>

namespace mailgrad {

struct picture {
  std::string name; ///< of its file, without a suffix: "loss-time"
  std::string title;
  std::string caption; ///< what the picture shows, in whole sentences
  std::string script;  ///< commands and data for gnuplot; empty: it cannot be drawn, and `caption` says why
  unsigned width = 720, height = 420;
};

enum class picture_format { svg, png };

/// Draws a picture with the program gnuplot, which reads the script from a temporary file and writes nothing
/// but the picture.
///
/// Errors  std::runtime_error in one line: gnuplot is not installed, or what it says went wrong.
std::string draw(const picture& p, picture_format format);

/// Text as a string of a gnuplot script, with its quotes. Between single quotes gnuplot replaces nothing, so
/// no text of a report is taken for a command.
std::string gnuplot_text(const std::string& text);

/// 1, 2 or 5 times a power of ten and at least 1, so that an axis of this range has at most seven marks.
double distance_of_marks(double range);

/// Gnuplot's words for an x axis of counts from `least` to `most`, with marks such as 0, 500, 1k, 1.5k. Its
/// own format "%.0s%c" would call 1500 and 2000 both 2k.
std::string axis_of_counts(double least, double most);

// Parts of an HTML page that loads nothing from elsewhere and runs no script.

/// Any text as text of a page, also within an attribute.
std::string as_html(std::string_view text);
/// The page up to its heading.
std::string html_begin(std::string_view title, std::string_view heading);
std::string html_end();
/// A picture, drawn into the page, and its caption below it; without a script, its title and its caption.
std::string html_figure(const picture& p);

} // namespace mailgrad
