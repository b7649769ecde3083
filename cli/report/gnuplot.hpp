#pragma once

#include <string>

namespace mailgrad {

/// A picture that gnuplot draws.
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

} // namespace mailgrad
