#pragma once

#include <mailgrad/cli/program.hpp>
#include <mailgrad/cli/report/gnuplot.hpp>
#include <mailgrad/lab/experiment.hpp>

namespace mailgrad {

/// How gnuplot draws a figure. `command` makes it again, and ends the caption.
picture picture_of(const lab::figure& f, const std::string& command);

/// Writes a file of results, a whole one or none.
///
/// Errors  std::system_error, std::runtime_error: it cannot be written.
void write_result(const std::filesystem::path& file, const std::string& content);

/// Draws each picture that can be drawn into PREFIX and its name, as .svg and .png.
void write_drawn(const std::filesystem::path& folder, const std::string& prefix,
                 std::span<const picture> pictures);

/// Calls what draws and writes pictures. One that cannot be drawn makes no difference to what was found, and
/// is said.
void write_if_drawn(const std::function<void()>& draw_all);

/// Prints a line for each experiment, the name first.
int list_experiments();

/// The subcommand that runs an experiment, prints its claims, and writes what the words ask for. What a
/// signal leaves unfinished is left out.
command make_lab_experiment(CLI::App& parent, const lab::experiment& e);

} // namespace mailgrad
