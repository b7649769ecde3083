#pragma once

#include <mailgrad/tests/actors/systems/story.hpp>

#include <cstdint>
#include <string>

// A story is played with real actors on a virtual clock, and judged.

namespace mailgrad::systems {

struct played {
  std::string broken{}; ///< which promise, and what was seen; empty: none
  std::string ended{};  ///< of the last report, with its words; or why there is none
  bool begun = false;   ///< whether the run began
  /// Whether the weights were compared with those of an undisturbed run, and of which run.
  enum class bits : std::uint8_t { none, of_undisturbed, of_resumed } judged_bits = bits::none;
  std::uint64_t crashes = 0, refused_writes = 0; ///< of the server and its disk
  std::uint64_t trace = 0;                       ///< a digest of all that has happened
};

/// Plays a story to its end. The same story has the same trace each time.
///
/// What it must keep: everything ends, at the latest when it is asked to stop; the books balance; a recording
/// repeats the run to the same bits; a run with one worker or under sync has the bits of an undisturbed one,
/// also if it went on from checkpoints; whoever is told an end is told why.
played play(const system_spec& s, const story& deeds);

/// The shortest story that it can find, by leaving deeds out, which breaks the same promise.
story shortened(const system_spec& s, story deeds, const std::string& broken);

/// The promise alone, without what was seen.
std::string promise_of(const std::string& broken);

} // namespace mailgrad::systems
