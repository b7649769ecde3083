#pragma once

#include <cstdint>
#include <string>

namespace mailgrad {

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
