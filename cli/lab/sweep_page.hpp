#pragma once

#include <mailgrad/cli/report/gnuplot.hpp>
#include <mailgrad/lab/sweep/sweep_summary.hpp>

#include <span>
#include <string>

namespace mailgrad {

/// The methods of a sweep as a table for a terminal, the best one first.
std::string in_words(const lab::sweep& s, std::span<const lab::sweep_summary> methods,
                     lab::judged_figure judged);

/// One HTML page with the methods of a sweep and its pictures. `rows` tell where they were made.
///
/// Errors  as draw().
std::string page_of(const lab::sweep& s, std::span<const lab::sweep_summary> methods,
                    lab::judged_figure judged, std::span<const lab::sweep_row> rows,
                    std::span<const picture> pictures, const std::string& command);

} // namespace mailgrad
