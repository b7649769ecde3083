#pragma once

#include <mailgrad/engine/account/staleness_histogram.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/record/rehearsal.hpp>

#include <cstdint>
#include <vector>

namespace mailgrad {

/// How fast the workers of a recorded run were, and what their order made of it: all that the moments of its
/// first shard tell.
///
/// A step lasts from the moment at which that shard answers the worker until it judges the gradient. So it
/// includes the ways of both messages, the update before it, other shards and the wait for a batch, but not
/// the wait for other workers. Steps between two exchanges share their time equally.
struct recorded_pace {
  std::vector<std::vector<instant>> steps; ///< by rank: how long each of its steps took, one at least
  instant lasted{0};                       ///< from the begin of the first step to the last gradient
  instant waited{0};                       ///< of all workers, for others at a barrier or a bound
  std::uint64_t updates = 0;               ///< of the first shard, as these
  std::uint64_t discarded = 0;             ///< gradients
  staleness_histogram gaps;                ///< of gradients that were applied or merged
};

/// Rehearses the run and takes its times. A recording does not tell when a worker began its first step. All
/// begin at the latest moment at which no first step is shorter than the median of its worker's later ones.
///
/// `r` must pass require_repeatable().
/// Errors  recording_error in one line: it was not completed, or workers came or went; a worker has too few
///         steps, or moments that fall; as rehearsal and require_replay_ends().
recorded_pace pace_of(const recording& r, const replay_terms& terms);

} // namespace mailgrad
