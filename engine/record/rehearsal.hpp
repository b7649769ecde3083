#pragma once

#include <mailgrad/engine/record/recorded_incarnations.hpp>
#include <mailgrad/engine/shard/policy_machine.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

namespace mailgrad {

/// The options, besides the recording, that determine the course of a replay.
struct replay_terms {
  std::string policy;            ///< the first policy
  std::uint64_t local_steps = 0; ///< of a worker between two exchanges; 0: each gradient goes to the shards
  bool elastic = false;          ///< EASGD: a worker exchanges before a step whose gradient it has computed
  std::uint64_t batches = std::numeric_limits<std::uint64_t>::max(); ///< in the whole run
};

/// Refuses, before it begins, a replay that would wait forever.
/// Errors  recording_error: the shard, its turn, and what the turn waits for; a batch that the data do not
///         have; a worker that pushes before its last gradient was taken, or gets weights twice.
///         std::invalid_argument: an unknown policy.
void require_replay_ends(const recording& r, const replay_terms& terms);

/// The part of a killed run's recording that can be repeated, as if the run had been stopped there. Each
/// shard takes all recorded entries whose gradients arrive. A gradient that one shard has taken is taken by
/// all: without an entry for it at the end, in the order of other shards.
/// Errors  as require_repeatable() and require_replay_ends().
recording repeatable_part(const recording& r, const replay_terms& terms);

/// How fast the workers of a recorded run were, and what their order made of it, as its first shard tells.
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
///         steps, or moments that fall; as require_replay_ends().
recorded_pace pace_of(const recording& r, const replay_terms& terms);

} // namespace mailgrad
