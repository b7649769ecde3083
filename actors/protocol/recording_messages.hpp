#pragma once

#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/engine/shard/order_entry.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstdint>
#include <memory>
#include <vector>

// What the recorder is told, so that a run can be replayed.

namespace mailgrad {

struct recorded_switch; // recording.hpp
struct recording_end;

/// Shard or feeder to recorder, after about a thousand entries, each second and at the end: what it judged or
/// dealt since the last notice. No answer.
struct order_noted {
  shard_index shard; ///< of `entries`
  std::vector<order_entry> entries;
  std::vector<recorded_deal> deals;
};

/// Shard or feeder to recorder: what it has told so far lies before this checkpoint. No answer.
struct recording_marked {
  std::uint64_t number = 0;
  shard_index shard; ///< `feeder_of_recording` stands for the feeder
};
inline constexpr shard_index feeder_of_recording{0xffffffff};

/// Coordinator to recorder: a checkpoint begins. When all have marked, the recorder has written what lies
/// before it, and answers with its `checkpoint_part`.
struct mark_recording {
  std::uint64_t number = 0;
};

/// To the coordinator, from the watch on the recorder: the actor has ended, and no checkpoint can be whole.
struct recorder_lost {};

/// Coordinator to recorder, before the shards are told: a switch begins. No answer.
struct switch_noted {
  std::shared_ptr<const recorded_switch> what;
};

/// The owner of a run to the recorder, when the run has ended. The recorder passes it on to the feeder, which
/// sends the deals that it has not yet told and then returns this message. Nothing follows it.
struct end_recording {
  std::shared_ptr<const recording_end> what;
  caf::actor feeder{}; ///< may have deals to tell; null if no feeder has
};

MAILGRAD_FIELDS(recorded_deal, worker, number, what)
MAILGRAD_FIELDS(recording_marked, number, shard)
MAILGRAD_FIELDS(mark_recording, number)
MAILGRAD_NO_FIELDS(recorder_lost)
MAILGRAD_FIELDS(order_noted, shard, entries, deals)

} // namespace mailgrad
