#pragma once

#include <mailgrad/cli/report/gnuplot.hpp>
#include <mailgrad/cli/report/report_file.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// The most runs that one picture tells apart, in colour and in grey.
inline constexpr std::size_t most_runs = 6;

/// "2: ssp:3", the name of a run in legends and headings.
std::string label_of(std::span<const report_file> runs, std::size_t which);

/// Loss against time, updates and samples, and the accuracy on the test set where it was measured.
std::vector<picture> loss_pictures(std::span<const report_file> runs);
/// A histogram for each worker of a run, beside what its policy lets expect.
picture staleness_picture(std::span<const report_file> runs, std::size_t which);
/// Gap against lag, and cosine against gap, of the sampled gradients; none if no run has sampled any.
std::vector<picture> sample_pictures(std::span<const report_file> runs);
/// The parts of a worker's time.
inline constexpr std::array worker_time_parts{"computing", "waiting at barriers", "waiting at a bound",
                                              "waiting for batches", "exchange and other"};

/// How a worker spent a run.
struct worker_times {
  std::size_t run = 0; ///< from 0
  std::string worker;  ///< its rank, or "all" for the mean of all workers of the run
  std::array<double, worker_time_parts.size()> shares{}; ///< of the run, in per cent
};

/// The times of each worker, or of the mean worker of each run where there are too many to show.
std::vector<worker_times> times_of_workers(std::span<const report_file> runs);
/// How much of the run each worker computed and waited.
picture worker_time_picture(std::span<const report_file> runs);
/// Mean and longest time of each part of a gradient's way.
picture gradient_time_picture(std::span<const report_file> runs);

} // namespace mailgrad
