#pragma once

#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/engine/shard/order_entry.hpp>
#include <mailgrad/files/archive.hpp>

// How the state and the course of a run are kept while it goes on (docs/checkpoints.md). No actor waits, but
// under hogwild: each worker marks a place in its own work, and the markers travel behind its messages.
//
//     feeder --checkpoint_due--> coordinator --take_checkpoint--> every device
//     device --checkpoint_marker--> every shard, --worker_marked--> feeder, --checkpoint_part--> coordinator
//     shard and feeder, with the markers of all workers --checkpoint_part--> coordinator
//     coordinator --write_checkpoint--> checkpoint writer --checkpoint_written--> coordinator
//
// Under hogwild a worker marks between two steps, and stands still until the block is copied:
//
//     coordinator --hold_for_checkpoint--> every device, then --block_copied--> every device
//
// What workers push when all is dealt, and that they leave, must not lie before the checkpoint of the end. So
// a worker that is about to end asks first:
//
//     device, when all shards have answered its last step --worker_at_end--> coordinator
//     coordinator --mark_at_end--> every device: marks when it is about to end, or before it takes weights of
//     behind the checkpoint, and then it ends

namespace mailgrad {

struct recorded_switch; // recording.hpp
struct recording_end;

/// Coordinator to feeder, once: tell when a checkpoint is due, after so many batches or so much time. 0: not.
struct watch_checkpoints {
  std::uint64_t every_batches = 0;
  std::int64_t every = 0; ///< ns
};

/// Feeder to coordinator, each time.
struct checkpoint_due {};

/// The owner of a run to coordinator: take a checkpoint as soon as possible.
struct request_checkpoint {};

/// Coordinator to every device; to every shard and the feeder when a worker has ended without a marker.
struct take_checkpoint {
  std::uint64_t number = 0; ///< from 1
};

/// Coordinator to every device, in place of `take_checkpoint` under hogwild.
struct hold_for_checkpoint {
  std::uint64_t number = 0;
};

/// Coordinator to every device that it has held: the weights are copied, or the checkpoint is given up.
struct block_copied {
  std::uint64_t number = 0;
};

/// Device to coordinator, if the run keeps its end: the worker ends as soon as it has an answer.
struct worker_at_end {
  rank worker;
  incarnation_number incarnation{};
};

/// Coordinator to every device, when the first is about to end.
struct mark_at_end {
  std::uint64_t number = 0; ///< 0: there is no checkpoint of the end, so do not mark
};

/// Device to each shard: what it pushed up to `step` belongs to the checkpoint.
struct checkpoint_marker {
  std::uint64_t number = 0;
  rank worker;
  incarnation_number incarnation{};
  step_number step;
  caf::actor collector; ///< gets the `checkpoint_part`
};

/// Device to feeder, likewise.
struct worker_marked {
  std::uint64_t number = 0;
  rank worker;
  std::uint64_t trained = 0; ///< of the batches that it was dealt since it joined or was resumed
  std::uint64_t samples = 0; ///< that it had trained in the whole run, as its report has them
  caf::actor collector;
};

/// Device, shard, feeder or recorder to coordinator.
struct checkpoint_part {
  std::uint64_t number = 0;
  std::string name; ///< "shard 0"
  std::shared_ptr<const saved_fields> fields;
  std::uint64_t steps = 0; ///< of a worker: mini-batches trained
};

/// Device or shard to coordinator, in place of its part: it lacks memory for that, and goes on.
struct checkpoint_failed {
  std::uint64_t number = 0;
  std::string name; ///< of the part
  std::string why;  ///< one line
};

/// Coordinator to checkpoint writer.
struct write_checkpoint {
  std::uint64_t number = 0;
  std::uint64_t steps = 0; ///< mini-batches that all workers had trained
  std::map<std::string, std::shared_ptr<const saved_fields>> parts{};
};

/// The answer.
struct checkpoint_written {
  std::uint64_t number = 0;
  std::uint64_t steps = 0;
  std::string file;
  std::string failure; ///< one line; empty: the file is there, whole
  std::uint64_t bytes = 0;
  std::int64_t took = 0;  ///< ns of the machine's clock
  bool made_room = false; ///< an older one was removed for it, since the disk was full
};

/// Shard or feeder to recorder, after about a thousand entries, each second and at the end: what it judged or
/// dealt since the last notice.
struct order_noted {
  shard_index shard; ///< of `entries`
  std::vector<order_entry> entries;
  std::vector<recorded_deal> deals;
};

/// Shard or feeder to recorder: what it has told so far lies before this checkpoint.
struct recording_marked {
  std::uint64_t number = 0;
  shard_index shard; ///< `feeder_of_recording` stands for the feeder
};
inline constexpr shard_index feeder_of_recording{0xffffffff};

/// Coordinator to recorder: a checkpoint begins. Answered with a `checkpoint_part`, when all have marked.
struct mark_recording {
  std::uint64_t number = 0;
};

/// To the coordinator, from the watch on the recorder: no checkpoint can be whole.
struct recorder_lost {};

/// Coordinator to recorder, before the shards are told: a switch begins.
struct switch_noted {
  std::shared_ptr<const recorded_switch> what;
};

/// The owner of an ended run to the recorder, which passes it on to the feeder. The feeder sends the deals
/// that it has not yet told and then returns this message. Nothing follows it.
struct end_recording {
  std::shared_ptr<const recording_end> what;
  caf::actor feeder{}; ///< may have deals to tell; null if no feeder has
};

MAILGRAD_FIELDS(watch_checkpoints, every_batches, every)
MAILGRAD_FIELDS(take_checkpoint, number)
MAILGRAD_FIELDS(hold_for_checkpoint, number)
MAILGRAD_FIELDS(block_copied, number)
MAILGRAD_FIELDS(worker_at_end, worker, incarnation)
MAILGRAD_FIELDS(mark_at_end, number)
MAILGRAD_FIELDS(checkpoint_marker, number, worker, incarnation, step, collector)
MAILGRAD_FIELDS(worker_marked, number, worker, trained, samples, collector)
MAILGRAD_FIELDS(checkpoint_written, number, steps, file, failure, bytes, took, made_room)
MAILGRAD_FIELDS(checkpoint_failed, number, name, why)
MAILGRAD_FIELDS_BY_NAME(checkpoint_part, number, name, fields, steps)
MAILGRAD_FIELDS(recorded_deal, worker, number, what)
MAILGRAD_FIELDS(recording_marked, number, shard)
MAILGRAD_FIELDS(mark_recording, number)
MAILGRAD_FIELDS(order_noted, shard, entries, deals)

} // namespace mailgrad
