#pragma once

#include <mailgrad/engine/account/trace_track.hpp>
#include <mailgrad/engine/account/training_report.hpp>

#include <iosfwd>

namespace mailgrad {

/// How a track was placed that an actor of another process has recorded by its own clock.
struct placed_track {
  std::string name;
  clock_offset clock{};
  std::optional<instant> lost_after{}; ///< the end of its last event, if its actor was lost
};

/// The timeline of a run.
struct run_trace {
  instant started{0};
  instant ended{0};
  std::string how;                                          ///< the ending, such as "completed"
  std::vector<std::shared_ptr<const trace_track>> tracks{}; ///< of workers, shards, then the feeder
  std::vector<std::string> lost{};                          ///< names of tracks lost with their actors
  std::vector<policy_switch> switches{};
  std::vector<checkpoint_times> checkpoints{};
  std::vector<placed_track> clocks{}; ///< of tracks from other processes
  std::vector<std::string> silent{};  ///< names of actors that record nothing
};

/// Writes the trace event format that Perfetto and Chrome open: JSON with one event a line.
///
/// There is one process, with a track for each actor and one of the coordinator for switches of policy and
/// checkpoints. Work and waits are complete events ("X") that never overlap on a track. An event without
/// duration is an instant event ("i"). Args of `apply`: worker, step, version_read, version (made) and gap.
/// `otherData` says what is missing, and how the clocks of other processes were matched with this one's.
/// Units   ts and dur are microseconds since the run began, to the nanosecond.
/// Source  Google, "Trace Event Format", 2016.
void write_trace(std::ostream& out, const run_trace& trace);

/// What the trace does not show, a line each: "worker 0 on cpu:0: the last 17 events were left out"
std::vector<std::string> missing_in(const run_trace& trace);

} // namespace mailgrad
