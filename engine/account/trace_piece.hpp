#pragma once

#include <mailgrad/engine/account/trace_track.hpp>
#include <mailgrad/files/archive.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// An event of a timeline as another process is told it: in spans, since that process has another clock.
struct told_event {
  trace_kind what = trace_kind::compute;
  std::int64_t ago = 0;  ///< ns from its begin until the piece was sent
  std::int64_t span = 0; ///< ns
  std::uint32_t peer = 0;
  std::uint64_t step = 0;
  std::uint64_t version_read = 0;
  std::uint64_t version = 0;
  std::uint32_t word = 0; ///< which of the words of the piece, from 1; 0: none

  void keep(archive& a) {
    a.choice("what", what, trace_kind::checkpoint);
    a.field("ago", ago);
    a.field("span", span);
    a.field("peer", peer);
    a.field("step", step);
    a.field("version_read", version_read);
    a.field("version", version);
    a.field("word", word);
  }
};

/// What a worker or a shard of another process has recorded since the piece before.
struct trace_piece {
  /// With so many a piece has less than 16 KiB.
  static constexpr std::size_t most_events = 256;
  static constexpr std::size_t most_words = 8;
  static constexpr std::size_t longest_word = 64;

  std::string device;                     ///< of the worker; empty: of a shard
  std::int64_t sent = 0;                  ///< a moment of its clock, in ns
  std::optional<std::int64_t> answered{}; ///< when it had the answer to the piece before, by its clock
  std::uint64_t left_out = 0;             ///< so far, events for which it had no room
  std::vector<told_event> events{};
  std::vector<std::string> words{}; ///< why gradients were discarded, and policies that began

  /// Whether its numbers can be those of a clock and of events that have ended.
  bool makes_sense() const;
};

/// Puts the events of a track from `first` on into a piece, as many as it has. A word for which there is no
/// room is left out.
///
/// Units   `sent` of the piece is a moment of the clock of the track.
void tell_from(const trace_track& track, std::size_t first, trace_piece& into);

} // namespace mailgrad
