#pragma once

#include <mailgrad/engine/account/time_source.hpp>

#include <cstdint>
#include <string>

namespace mailgrad {

/// When a checkpoint was collected, and what became of it.
struct checkpoint_times {
  enum class fate : std::uint8_t {
    given_up, ///< a part could not come any more, or the run ended first
    written,
    failed, ///< the file could not be written
  };
  std::uint64_t number = 0; ///< from 1; a run that is resumed counts anew
  instant begun{0};         ///< when the parts were asked for
  instant collected{0};     ///< when the last part came, or the checkpoint was given up
  instant ended{0};         ///< when the file was there or had failed; `collected` if given up
  fate what = fate::given_up;
  std::uint64_t steps = 0; ///< that the workers had trained; 0 if given up
  std::string file{};
  std::uint64_t bytes = 0; ///< of the file, if it was written
  std::string failure{};   ///< in one line, if it failed
};

/// What became of the checkpoints of a run.
struct checkpoint_account {
  std::uint64_t written =
      0; ///< files; one that takes the place of the last one, after the same step, is none more
  std::uint64_t failed = 0;
  std::uint64_t bytes = 0; ///< of all files that were written
  double seconds = 0;      ///< that the writer's thread took for all of them, by the machine's clock
  double held_seconds = 0; ///< that workers of hogwild stood still, from the first request until they went on
  std::string last{};      ///< the file of the last one
  std::uint64_t steps = 0; ///< that the workers had trained then
  std::string failure{};   ///< of the last one that failed, in one line
  std::uint64_t skipped = 0; ///< became due while one before waited for its turn, which was taken for both
  std::uint64_t removed_for_room = 0; ///< older ones, which would have stayed if the disk were not full
};

/// What became of the recording of a run.
struct recording_account {
  std::string file;
  std::uint64_t bytes = 0; ///< of the whole recording, or of all that was written when it ended early
  std::string failure{};   ///< why it ended before the run did; empty: it did not, or not yet
  double seconds = 0;      ///< how long the run had lasted when the recording ended early
  /// The file that has its first `kept_bytes` bytes, which a replay repeats as far as they go. Empty: none.
  std::string kept{};
  std::uint64_t kept_bytes = 0;
  bool removed = false; ///< so that other files have room
};

// Both are for a recording that ended early.

/// "ended early, after 12.3 s with 8.1 MiB: No space left on device; its first 7.0 MiB are in
/// 'run.rec.partial', the rest made room for other files"
std::string early_end_in_words(const recording_account& r);
/// "recording 'run.rec' ended early, after ..."
std::string recording_in_words(const recording_account& r);

} // namespace mailgrad
