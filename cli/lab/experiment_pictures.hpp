#pragma once

#include <mailgrad/cli/report/gnuplot.hpp>
#include <mailgrad/lab/figure.hpp>

#include <string>

namespace mailgrad {

/// How gnuplot draws a figure. `command` makes it again, and ends the caption.
picture picture_of(const lab::figure& f, const std::string& command);

} // namespace mailgrad
