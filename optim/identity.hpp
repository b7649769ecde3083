#pragma once

#include <compare>
#include <cstdint>

// The numbers that say what a message of a run is about. Each is a type of its own, so that a step is never
// taken for a version.

namespace mailgrad {

/// Number of a worker among the workers of a run, from 0.
struct rank {
  std::uint32_t value = 0;
  friend auto operator<=>(const rank&, const rank&) = default;
};

/// How many workers a run has.
struct world_size {
  std::uint32_t value = 0;
};

/// Number of a shard among the shards of a run, from 0.
struct shard_index {
  std::uint32_t value = 0;
  friend auto operator<=>(const shard_index&, const shard_index&) = default;
};

/// A worker's own count of its gradients, from 1; 0: it has made none.
struct step_number {
  std::uint64_t value = 0;
  step_number& operator++() noexcept { return ++value, *this; }
  friend auto operator<=>(const step_number&, const step_number&) = default;
};

/// How many updates the weights of a shard have seen.
struct version_number {
  std::uint64_t value = 0;
  version_number& operator++() noexcept { return ++value, *this; }
  /// The updates between two versions: the gap of a gradient that was computed from `read`.
  friend std::uint64_t operator-(version_number now, version_number read) noexcept {
    return now.value - read.value;
  }
  friend auto operator<=>(const version_number&, const version_number&) = default;
};

/// How often a run has changed its policy.
struct policy_epoch {
  std::uint64_t value = 0;
  friend auto operator<=>(const policy_epoch&, const policy_epoch&) = default;
};

/// A run among all runs: drawn at random when it begins.
struct run_id {
  std::uint64_t value = 0;
  friend auto operator<=>(const run_id&, const run_id&) = default;
};

/// How often a worker has come back to the run: a process that was taken for dead returns under a higher
/// number, and what it sent under the old one counts no more.
struct incarnation_number {
  std::uint32_t value = 0;
  friend auto operator<=>(const incarnation_number&, const incarnation_number&) = default;
};

/// A gradient among all gradients of all runs. None counts twice.
struct gradient_id {
  run_id run;
  rank worker;
  incarnation_number incarnation;
  step_number step;
  friend auto operator<=>(const gradient_id&, const gradient_id&) = default;
};

} // namespace mailgrad
