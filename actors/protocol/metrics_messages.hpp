#pragma once

#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/tensor/memory.hpp>

// How a run is measured while it goes on. No actor of the run waits for any of this.
//
//     tracker --event_noted: gaps, a line--> observer
//     tracker --test_weights--> evaluator --read_shard--> every shard --shard_read--> evaluator
//     evaluator --weights_tested--> tracker --event_noted: the evaluation, gaps, a line--> observer
//                                          --event_noted: why a test was left out--> observer
//     tracker --tests_judged--> coordinator, in a run with patience
//     tracker --stop_training--> coordinator, when the run has been trained enough

namespace mailgrad {

/// Tracker, coordinator, owner or worker_server of a run to observer: this has happened.
struct event_noted {
  run_event what;
};

/// The owner of an ended run to observer, and observer to tracker: make the last line with these counts. The
/// tracker answers with `event_noted` and `end_events`.
struct close_metrics {
  metrics_line known;
  caf::actor tracker;
};

/// Tracker to observer, as the last, and from the watch on the tracker. The observer ends.
struct end_events {};

/// The spawner of a run to tracker, once: have the weights tested by the evaluator `by`.
struct watch_tests {
  caf::actor by;
};

/// The spawner of a run to tracker, once: send `stop_training` to `whom` when it has been trained enough.
struct stop_by {
  caf::actor whom;
};

/// Tracker to evaluator, one at a time: test the weights of this moment. Answered with `weights_tested`.
struct test_weights {
  std::uint64_t steps = 0;
};
struct weights_tested {
  evaluation_made what;
  bool whole = true;          ///< false: the test was given up or left out
  std::string why_left_out{}; ///< in one line; empty if it was not
};

/// Tracker to coordinator, after each test, in a run with patience: what its checkpoints shall keep of that.
struct tests_judged {
  judged_tests so_far;
};

/// Evaluator, or a reader of the lab, to shard: its weights are wanted. Answered with `shard_read`.
struct read_shard {
  /// The GPU on which the weights are read, if they lie there; else they are wanted on the host. A shard of
  /// another process does not hear of it.
  std::optional<std::uint32_t> gpu{};
};

/// Nobody writes to these weights, but workers do under hogwild on a GPU, where the reader copies them as
/// they are.
struct shard_read {
  shard_index shard;
  version_number version;
  bool in_block = false; ///< hogwild: the weights are in the shared block, and `values` is empty
  snapshot values;
};

MAILGRAD_FIELDS(watch_tests, by)
MAILGRAD_FIELDS(stop_by, whom)
MAILGRAD_FIELDS(test_weights, steps)
template <class Inspector>
auto inspect(Inspector& f, read_shard& x) {
  return wire::fields(f, x);
}
MAILGRAD_FIELDS_BY_NAME(shard_read, shard, version, in_block, values)

} // namespace mailgrad
