#pragma once

#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/files/archive.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// The part of a checkpoint that tells how much of the recording of its run lies before it.
inline constexpr const char* recording_part = "recording";

/// How much of a recording lies before a checkpoint. What a run records after it was resumed from there
/// follows that.
struct recording_cut {
  std::string file;                       ///< into which it is recorded, as an absolute path
  bool failed = false;                    ///< something before could not be written
  std::vector<std::uint64_t> turns{};     ///< by shard
  std::vector<std::uint32_t> checksums{}; ///< of these turns, so that those of another run are told apart

  explicit recording_cut(std::uint32_t shards = 0) : turns(shards), checksums(shards) {}

  /// Counts turns that are recorded.
  void add(std::uint32_t shard, std::span<const order_entry> more);
  void keep(archive& a);
};

/// The part of a recording that lies before a checkpoint. `trained` are the batches of each worker then, by
/// rank, and `switches` those of the policy.
///
/// Errors  recording_error: it is of another run, or does not go so far; or a worker had left, so that the
///         recording of a run that brings it back could not be repeated.
recording part_before(const recording& r, const recording_cut& at, std::span<const std::uint64_t> trained,
                      std::size_t switches);

/// Writes all turns, deals and switches of `what`, as if they were noted now.
void write_again(recording_writer& to, const recording& what);

} // namespace mailgrad
