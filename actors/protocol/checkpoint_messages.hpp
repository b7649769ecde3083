#pragma once

#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/files/archive.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

// How the state of a run is kept while it goes on. No actor waits, but under hogwild: each worker marks the
// place in its own work, and the markers travel behind its messages.
//
//     feeder --checkpoint_due--> coordinator
//     coordinator --take_checkpoint--> every device
//     device --checkpoint_marker--> every shard, --worker_marked--> feeder, --checkpoint_part--> coordinator
//     shard, when it has the markers of all workers --checkpoint_part--> coordinator
//     feeder, when it has the markers of all workers --checkpoint_part--> coordinator
//     device or shard that lacks memory for its part --checkpoint_failed--> coordinator, in place of it
//     coordinator --write_checkpoint--> checkpoint writer --checkpoint_written--> coordinator
//
// A gradient that was pushed before the marker of its worker belongs to the checkpoint, one that was pushed
// after it does not. A shard keeps its state before it takes the first gradient that does not, and keeps the
// gradients that belong and come later beside it.
//
// Under hogwild, workers write to the weights at the same time, so the block that they share is whole only
// while none of them writes. There a worker marks between two steps and stands still until it is copied:
//
//     coordinator --hold_for_checkpoint--> every device
//     device, between two steps: marks as above
//     when all workers stand still: the shards copy the block, or the coordinator if the run has none
//     coordinator --block_copied--> every device, which goes on
//
// When every batch is dealt, workers push what they have kept, leave, and so let others go on that wait for
// them. A run that is made longer must not have that behind it. So a worker that is about to end asks first,
// and the last checkpoint is one of before that. The other workers mark when they are about to end, too, or
// get weights of behind it:
//
//     device, when all shards have answered its last step --worker_at_end--> coordinator
//     coordinator --mark_at_end--> every device: marks as above, then it ends
// Source  Chandy & Lamport, "Distributed Snapshots: Determining Global States of Distributed Systems", ACM
//         TOCS 1985.

namespace mailgrad {

/// Coordinator to feeder, once: tell when a checkpoint is due, after so many batches or so much time. 0: not.
/// The feeder answers with `checkpoint_due`, each time.
struct watch_checkpoints {
  std::uint64_t every_batches = 0;
  std::int64_t every = 0; ///< ns
};

/// Feeder to coordinator: a checkpoint is due. No answer.
struct checkpoint_due {};

/// The owner of a run to coordinator: take a checkpoint as soon as possible. No answer.
struct request_checkpoint {};

/// Coordinator to every device; to every shard and the feeder when a worker has ended without a marker. A
/// device answers with a marker to each shard and the feeder, and with its `checkpoint_part`; the others with
/// theirs.
struct take_checkpoint {
  std::uint64_t number = 0; ///< from 1
};

/// Coordinator to every device, in place of `take_checkpoint` under hogwild: mark between two steps, and
/// begin no step before `block_copied`.
struct hold_for_checkpoint {
  std::uint64_t number = 0;
};

/// Coordinator to every device that it has held: the weights of this checkpoint are copied, or it is given
/// up. No answer.
struct block_copied {
  std::uint64_t number = 0;
};

/// Device to coordinator, if the run keeps its end: the feeder has no further batch, all gradients are
/// answered, and the worker ends as soon as it has an answer, `mark_at_end`.
struct worker_at_end {
  rank worker;
  incarnation_number incarnation{};
};

/// Coordinator to every device, when the first is about to end: mark before you end. A device answers with
/// its markers and its part.
struct mark_at_end {
  std::uint64_t number = 0; ///< 0: there is no checkpoint of the end, so do not mark
};

/// Device to each shard: what it pushed up to `step` belongs to the checkpoint. The shard sends its
/// `checkpoint_part` to `collector` when it has the markers of all workers.
struct checkpoint_marker {
  std::uint64_t number = 0;
  rank worker;
  incarnation_number incarnation{};
  step_number step;
  caf::actor collector;
};

/// Device to feeder: at its marker, the worker had trained so many of the batches that it was dealt since it
/// joined or was resumed.
struct worker_marked {
  std::uint64_t number = 0;
  rank worker;
  std::uint64_t trained = 0;
  std::uint64_t samples = 0; ///< that it had trained in the whole run, as its report has them
  caf::actor collector;
};

/// Device, shard, feeder or recorder to coordinator: its part of the checkpoint. No answer.
struct checkpoint_part {
  std::uint64_t number = 0;
  std::string name; ///< "shard 0"
  std::shared_ptr<const saved_fields> fields;
  std::uint64_t steps = 0; ///< of a worker: mini-batches trained
};

/// Device or shard to coordinator, in place of its part: it could not keep its state for this checkpoint, and
/// goes on. No answer.
struct checkpoint_failed {
  std::uint64_t number = 0;
  std::string name; ///< of the part
  std::string why;  ///< one line
};

/// Coordinator to checkpoint writer, which answers with `checkpoint_written`.
struct write_checkpoint {
  std::uint64_t number = 0;
  std::uint64_t steps = 0; ///< mini-batches that all workers had trained
  std::map<std::string, std::shared_ptr<const saved_fields>> parts{};
};

/// Checkpoint writer to coordinator, in answer to `write_checkpoint`.
struct checkpoint_written {
  std::uint64_t number = 0;
  std::uint64_t steps = 0;
  std::string file;
  std::string failure; ///< one line; empty: the file is there, whole
  std::uint64_t bytes = 0;
  std::int64_t took = 0;  ///< ns of the machine's clock
  bool made_room = false; ///< an older one was removed for it, since the disk was full
};

MAILGRAD_FIELDS(watch_checkpoints, every_batches, every)
MAILGRAD_NO_FIELDS(checkpoint_due)
MAILGRAD_NO_FIELDS(request_checkpoint)
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

} // namespace mailgrad
