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

  void keep(archive& a) {
    a.choice("what", what, trace_kind::wire);
    a.field("ago", ago);
    a.field("span", span);
    a.field("peer", peer);
    a.field("step", step);
    a.field("version_read", version_read);
    a.field("version", version);
  }
};

/// What a worker of another process has recorded since the piece before.
struct trace_piece {
  /// With so many a piece has less than 16 KiB.
  static constexpr std::size_t most_events = 256;

  std::string device;                     ///< of the worker
  std::int64_t sent = 0;                  ///< a moment of its clock, in ns
  std::optional<std::int64_t> answered{}; ///< when it had the answer to the piece before, by its clock
  std::uint64_t left_out = 0;             ///< so far, events for which it had no room
  std::vector<told_event> events{};

  /// Whether its numbers can be those of a clock and of events that have ended.
  bool makes_sense() const;
};

/// The events of a track from `first` on, as many as a piece has.
///
/// Units   `sent` is a moment of the clock of the track.
std::vector<told_event> told_from(const trace_track& track, std::size_t first, instant sent);

} // namespace mailgrad
