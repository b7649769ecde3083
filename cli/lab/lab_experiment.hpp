#pragma once

#include <mailgrad/cli/report/gnuplot.hpp>
#include <mailgrad/lab/experiment.hpp>

#include <cstdint>
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

/// The claims of an experiment as a table, and a last line with the judgement.
std::string in_words(const lab::experiment_result& r, double seconds);

/// What is claimed, by whom, for the head of an output.
std::string introduction(const lab::experiment& e);

/// A line for each experiment, the name first.
std::string list_of_experiments();

/// One HTML page with the claims of an experiment and its pictures, if they can be drawn here.
///
/// Errors  as draw().
std::string page_of(const lab::experiment& e, const lab::experiment_result& r,
                    std::span<const picture> pictures);

struct experiment_args {
  bool quick = false;
  std::uint64_t seed = 1;
  std::string data;   ///< to train on; empty: the experiment's own
  std::string output; ///< the folder for tables, pictures and the page; empty: none are written
  bool quiet = false; ///< without the introduction
};

/// Runs an experiment, prints its claims, and writes what the words ask for. What a signal leaves unfinished
/// is left out. Returns an exit code.
///
/// Errors  std::invalid_argument if there can be no such folder; those of open_data(); std::runtime_error if
///         a picture cannot be drawn.
int run_experiment(const lab::experiment& e, const experiment_args& w);

} // namespace mailgrad
