#pragma once

#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/engine/shard/order_entry.hpp>
#include <mailgrad/engine/shard/parallel_update.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/shard/shard_weights.hpp>

// What devices and shards say to each other: a worker joins, pushes its gradients (`push_gradient`, a header
// of its own) and gets weights (`shard_weights`, likewise).

namespace mailgrad {

/// Device to each shard, once. Answered with `shard_weights`.
struct join_shard {
  rank worker;
  incarnation_number incarnation;
  caf::actor device; ///< its weights go to this
};

/// Device to each shard, if its runner can skip a step: shall the gradient of `step` be discarded for being
/// too stale, whenever it comes? Answered with `verdict_predicted`.
struct predict_verdict {
  rank worker;
  incarnation_number incarnation{};
  step_number step;
  version_number version_read{}; ///< of this shard's weights
  policy_epoch epoch{};
};

/// If all shards will discard it, the device skips the step and pushes a gradient without values; if one may
/// not, it computes the step.
struct verdict_predicted {
  shard_index shard;
  step_number step;
  bool discarded = false;
};

/// Shard to device, in a replay: the recording has no entry for the worker's gradient of `step`, so the shard
/// never takes it. The worker fails.
struct entry_missing {
  shard_index shard;
  step_number step;
};

/// Shard to every device that has joined, to each that joins later, and to the coordinator before its report:
/// memory of its GPU was lacking, so it takes no further gradient. It has its weights, and answers who asks
/// for them. The worker or the run fails.
struct shard_failed {
  shard_index shard;
  std::string why; ///< one line
};

/// Device or coordinator to each shard and the feeder: nothing may wait any longer for this incarnation. A
/// shard's process to the coordinator: its connection has ended, so pass this on.
struct worker_left {
  rank worker;
  incarnation_number incarnation{};
};

/// Coordinator to each shard, after the `worker_left` of a lost worker. Answered with `trained_reported`.
struct tell_trained {
  rank worker;
  incarnation_number incarnation{};
};

/// What the shard has taken of this incarnation, or takes before anything that it is sent from now on. It
/// takes nothing more of it.
struct trained_reported {
  shard_index shard;
  rank worker;
  incarnation_number incarnation{};
  std::uint64_t batches = 0;   ///< whose gradients the shard has judged
  std::uint64_t gradients = 0; ///< that have arrived, judged or not
  std::uint64_t samples = 0;   ///< in the batches
};

MAILGRAD_FIELDS(join_shard, worker, incarnation, device)
MAILGRAD_FIELDS(stay_at_shard, in_mailbox, until_barrier, under_bound, until_answered)
MAILGRAD_FIELDS(weights_header, shard, version, epoch, stay, met, checkpoint, discarded)
template <class Inspector>
auto inspect(Inspector& f, weights_payload&) {
  return wire::refuse_to_leave(f);
}
MAILGRAD_FIELDS(shard_weights, header, payload)
MAILGRAD_FIELDS(predict_verdict, worker, incarnation, step, version_read, epoch)
MAILGRAD_FIELDS(verdict_predicted, shard, step, discarded)
MAILGRAD_FIELDS(entry_missing, shard, step)
MAILGRAD_FIELDS(shard_failed, shard, why)
MAILGRAD_FIELDS(worker_left, worker, incarnation)
MAILGRAD_FIELDS(tell_trained, worker, incarnation)
MAILGRAD_FIELDS(trained_reported, shard, worker, incarnation, batches, gradients, samples)
MAILGRAD_FIELDS(gradient_id, run, worker, incarnation, step)
MAILGRAD_FIELDS(gradient_times, read, compute, wire)
MAILGRAD_FIELDS(sum_tag, carrier, gradients)
MAILGRAD_FIELDS(gradient_header, id, version_read, epoch, scale_bits, times, batches, samples, sum)
template <class Inspector>
auto inspect(Inspector& f, gradient_payload&) {
  return wire::refuse_to_leave(f);
}
MAILGRAD_FIELDS(push_gradient, header, payload)
// Between shards: the first sends each to every other, while the policy requires all shards to judge alike.
MAILGRAD_FIELDS(order_entry, what, worker, step, gap, arrived)

/// While all workers wait for a shard, helpers update it too: shard to helpers, and a helper to itself after
/// each part: compute a part of this update, if one is left. It never leaves the process. The helper that
/// computes the last part answers with `update_helped`, and one that fails with `update_failed`.
struct help_update {
  std::shared_ptr<parallel_update> work;
  caf::actor shard;
};
struct update_helped {};
struct update_failed {
  std::string why;
};

MAILGRAD_FIELDS(update_failed, why)

} // namespace mailgrad
