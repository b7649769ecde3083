#pragma once

#include <mailgrad/cli/report/gnuplot.hpp>
#include <mailgrad/cli/report/report_file.hpp>

#include <span>

namespace mailgrad {

/// The most runs that one picture tells apart, in colour and in grey.
inline constexpr std::size_t most_runs = 6;

/// "2: ssp:3", the name of a run in legends and headings.
std::string label_of(std::span<const report_file> runs, std::size_t which);

/// All that can be drawn of these runs: loss against time, updates and samples, what was tested during them,
/// the staleness of each worker beside what its policy lets expect, sampled gradients, and where the time of
/// workers and gradients went.
std::vector<picture> pictures_of(std::span<const report_file> runs);

/// What is to be said of the loss: how a point is made, and which runs have none.
std::string format_loss(std::span<const report_file> runs);

} // namespace mailgrad
