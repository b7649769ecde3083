#pragma once

#include <mailgrad/cli/report/gnuplot.hpp>
#include <mailgrad/lab/experiment.hpp>

#include <span>
#include <string>

namespace mailgrad {

/// One HTML page with the claims of an experiment and its pictures, if they can be drawn here.
///
/// Errors  as draw().
std::string page_of(const lab::experiment& e, const lab::experiment_result& r,
                    std::span<const picture> pictures);

} // namespace mailgrad
