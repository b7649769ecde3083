#pragma once

#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/shard/order_entry.hpp>
#include <mailgrad/engine/shard/parallel_update.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/shard/shard_weights.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstdint>
#include <memory>
#include <string>

// What devices and shards say to each other: a worker joins, pushes its gradients (`push_gradient`, a header
// of its own) and gets weights (`shard_weights`, likewise).

// How a shard updates on several threads while all workers wait for it, so that these threads are idle.
//
//     shard --help_update--> helpers: shard and helpers compute parts, and handle messages after each
//     helper that computes the last part --update_helped--> shard
//
// None of these messages leaves the process.

namespace mailgrad {

// -- device actor <-> parameter actor -----------------------------------------------------------------------

/// Device to each shard, once: `worker` takes part, and its weights go to `device`. The shard answers with
/// `shard_weights`.
struct join_shard {
  rank worker;
  incarnation_number incarnation;
  caf::actor device;
};

/// Device to each shard, if its runner can skip a step: shall the gradient of `step` be discarded for being
/// too stale, whenever it comes? The shard answers with `verdict_predicted`.
struct predict_verdict {
  rank worker;
  incarnation_number incarnation{};
  step_number step;
  version_number version_read{}; ///< of this shard's weights
  policy_epoch epoch{};
};

/// Shard to device: whether it will discard the gradient of `step`. No answer. If all shards will, the device
/// skips the step and pushes a gradient without values; if one may not, it computes the step.
struct verdict_predicted {
  shard_index shard;
  step_number step;
  bool discarded = false;
};

/// Shard to device, in a replay: the recording has no entry for the worker's gradient of `step`, so the shard
/// never takes it. No answer; the worker fails.
struct entry_missing {
  shard_index shard;
  step_number step;
};

/// Shard to every device that has joined, to each that joins later, and to the coordinator before its report:
/// memory of its GPU was lacking, so it takes no further gradient. It has its weights, and answers who asks
/// for them. No answer; the worker or the run fails.
struct shard_failed {
  shard_index shard;
  std::string why; ///< one line
};

/// Device or coordinator to each shard and the feeder: nothing may wait any longer for this incarnation of
/// `worker`. A shard's process to the coordinator: its connection has ended, so pass this on. No answer.
struct worker_left {
  rank worker;
  incarnation_number incarnation{};
};

/// Coordinator to each shard, after the `worker_left` of a lost worker: how much of this incarnation did it
/// take? The shard answers with `trained_reported`.
struct tell_trained {
  rank worker;
  incarnation_number incarnation{};
};

/// Shard to coordinator: what it has taken of this incarnation of `worker`, or takes before anything that it
/// is sent from now on. It takes nothing more of it. No answer.
struct trained_reported {
  shard_index shard;
  rank worker;
  incarnation_number incarnation{};
  std::uint64_t batches = 0;   ///< whose gradients the shard has judged
  std::uint64_t gradients = 0; ///< that have arrived, judged or not
  std::uint64_t samples = 0;   ///< in the batches
};

// -- between shards -----------------------------------------------------------------------------------------

// The first shard sends each order_entry to every other shard, while the policy requires all shards to judge
// alike: what it judged, in its order. No answer.

MAILGRAD_FIELDS(join_shard, worker, incarnation, device)
template <class Inspector>
auto inspect(Inspector& f, stay_at_shard& x) {
  return wire::fields(
      f, x, wire::field("in_mailbox", x.in_mailbox), wire::field("until_barrier", x.until_barrier),
      wire::field("under_bound", x.under_bound), wire::field("until_answered", x.until_answered));
}
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
MAILGRAD_FIELDS(order_entry, what, worker, step, gap, arrived)

/// Shard to helpers, and a helper to itself after each part: compute a part of this update, if one is left.
/// The helper that computes the last part answers with `update_helped`, and one that fails with
/// `update_failed`.
struct help_update {
  std::shared_ptr<parallel_update> work;
  caf::actor shard;
};

/// Helper to shard: all parts are computed.
struct update_helped {};

/// Helper to shard: a part could not be computed.
struct update_failed {
  std::string why;
};

MAILGRAD_NO_FIELDS(update_helped)
MAILGRAD_FIELDS(update_failed, why)

} // namespace mailgrad
