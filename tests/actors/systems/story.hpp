#pragma once

#include <mailgrad/tests/net/simulated_network.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

// What may happen to a run over processes: the system, and what is done to it. A seed draws both, and it is
// played.

namespace mailgrad::systems {

using std::chrono::milliseconds;

/// A run over processes.
struct system_spec {
  std::uint64_t seed = 0; ///< of the order of messages
  std::string policy = "async";
  std::string cure = "none";
  std::uint32_t workers = 2, slots = 0, shards = 1, hosts = 0;
  std::uint64_t local_steps = 0, batches = 24;
  milliseconds delay{20}, jitter{10}; ///< of a message on its way
  /// Of each frame, the probability that it comes twice, after the next one, with another bit, only in part
  /// before the connection closes, or with garbage behind it.
  double duplicate = 0, reorder = 0, damage = 0, truncate = 0, garbage = 0;
  milliseconds rejoin{5000};              ///< for how long a worker that is cut off tries to come back
  std::chrono::nanoseconds when_alone{0}; ///< for how long a run without workers waits for one
  bool records = false;
  bool keeps = false;           ///< whether it takes checkpoints
  std::uint64_t keeps_each = 0; ///< mini-batches between two
};

/// Whether its network carries each frame once, whole and in order.
bool has_no_faults(const system_spec& s);

/// What is done to the processes of a run at some moment.
struct deed {
  enum class kind : std::uint8_t {
    start,   ///< a worker or a host; worker: with the number of its place, if `words` is "number"
    twin,    ///< a worker with the number of another one, on another machine
    leave,   ///< a worker, by its own will
    kill,    ///< is started again after `span`, if that is not 0; a server goes on from its last checkpoint,
             ///< with `number` workers, if that is not 0
    crash,   ///< the server, `number` calls that change a file later, in the middle of the last; as kill
    freeze,  ///< goes on after `span`
    cut,     ///< nothing comes or goes for `span`
    cut_out, ///< nothing goes for `span`
    full_disk, ///< of the server for `span`; "torn": after half a write
    slow_disk, ///< of the server: what is to be written waits for `span`
    switches,  ///< to the policy in `words`
    checkpoint,
    stop,
  };
  enum class role : std::uint8_t { server, host, worker, all };

  kind what{};
  role who{};
  std::uint32_t number = 0; ///< of the worker or host
  milliseconds at{0}, span{0};
  std::string words{};
};

using story = std::vector<deed>;

/// A story as C++ and a system as JSON, to be pasted into a test. In JSON, times are counts of their units.
std::string as_code(const story& s);
std::string as_json(const system_spec& s);
/// Those fields have their defaults which are not named.
system_spec system_of(const std::string& json);

/// What a seed stands for.
system_spec drawn_system(std::uint64_t seed);
story drawn_story(std::uint64_t seed, const system_spec& s);

/// What came of a story that was played with real actors on a virtual clock, and judged.
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

} // namespace mailgrad::systems
