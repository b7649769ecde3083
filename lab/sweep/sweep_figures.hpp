#pragma once

#include <mailgrad/lab/figure.hpp>
#include <mailgrad/lab/sweep/sweep_summary.hpp>

#include <span>
#include <string>
#include <vector>

namespace mailgrad::lab {

/// What distinguishes a setting: its values on the axes with more than one, but for the seed and `without`.
/// "ssp:3, inverse, workers 8"; "all runs" if nothing does.
std::string words_of(const sweep& s, const sweep_summary& m, std::initializer_list<std::string_view> without);

/// The pictures that a sweep has numbers for: the judged figure by the tuned value, by workers or by method,
/// time to target and speed-up by workers, and the loss by virtual time of the median run of each method.
/// Each has at most six series, the best ones, and its caption names those that are left out.
std::vector<figure> figures_of(const sweep& s, std::span<const sweep_row> rows,
                               std::span<const curve_point> curves);

} // namespace mailgrad::lab
