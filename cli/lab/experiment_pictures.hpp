#pragma once

#include <mailgrad/cli/report/gnuplot.hpp>
#include <mailgrad/lab/figure.hpp>

#include <filesystem>
#include <span>
#include <string>

namespace mailgrad {

/// How gnuplot draws a figure. `command` makes it again, and ends the caption.
picture picture_of(const lab::figure& f, const std::string& command);

/// Writes a file of results, a whole one or none.
///
/// Errors  std::system_error, std::runtime_error: it cannot be written.
void write_result(const std::filesystem::path& file, const std::string& content);

/// Draws each picture that can be drawn into PREFIX and its name, as .svg and .png.
///
/// Errors  as draw() and write_result().
void write_drawn(const std::filesystem::path& folder, const std::string& prefix,
                 std::span<const picture> pictures);

} // namespace mailgrad
