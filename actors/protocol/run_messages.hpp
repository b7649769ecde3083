#pragma once

#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/account/run_meter.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/shard/switch_policy.hpp>
#include <mailgrad/optim/policies/auto_rule.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

namespace mailgrad {

// What the coordinator and the staleness tracker of a run are told and what they ask. docs/protocol.md says
// of each message what its receiver owes.

// -- towards the coordinator --------------------------------------------------------------------------------

/// Device to coordinator, as its first message. No answer, unless the worker joins a run in progress: then
/// `slot_given`, or `give_up` if the run has no slot for it.
struct worker_joined {
  rank worker;
  caf::actor device; ///< its death is to be watched for
  incarnation_number incarnation{};
  bool late = false; ///< it waits for its slot, and takes no part before
};

/// Device to coordinator, as its last message: all gradients are answered.
struct worker_finished {
  worker_report report;
  incarnation_number incarnation{};
  std::string why_left{}; ///< before the data were exhausted; empty if they are
  /// What checkpoints after its end keep of its updates under hogwild, in the group "block"; or null.
  std::shared_ptr<saved_fields> in_block{};
};

/// In its place: the loss of `step` is not finite.
struct loss_diverged {
  worker_report report;
  std::uint64_t step = 0;
  incarnation_number incarnation{};
};

/// In its place: a kernel or an update rule failed in `step`.
struct worker_failed {
  worker_report report;
  std::uint64_t step = 0;
  std::string why;
  incarnation_number incarnation{};
  /// A device failed before anything of the step was pushed, and the worker has left as one that is asked to:
  /// the run can go on from here.
  bool leaves_all = false;
};

/// Device of another process to coordinator, if the run has a timeline: what the worker has done since it
/// told the last piece. Answered with `trace_taken` at once; no other piece is sent before. The last one
/// comes before the worker's report.
struct trace_reported {
  rank worker;
  incarnation_number incarnation{};
  trace_piece piece{};
};

/// Shard to coordinator, likewise: first when a worker has joined, then behind a gradient that was judged.
struct shard_trace_reported {
  shard_index shard;
  trace_piece piece{};
};

/// To the coordinator, from the watch on a device actor. In all such notices, `why` is what the exception
/// said that ended the actor; empty if none did.
struct worker_lost {
  rank worker;
  std::string why{};
  incarnation_number incarnation{};
};

/// To the coordinator, from the watch on a parameter actor.
struct shard_lost {
  shard_index shard;
  std::string why{};
};

/// To the coordinator and the recorder, from the watch on the feeder.
struct feeder_lost {
  std::string why{};
};

/// The owner of a run to coordinator, or tracker: deal no more batches, and end when the dealt ones are
/// trained.
struct stop_training {
  std::string why;
  bool enough = false; ///< the run has been trained as long as its options ask for
};

// -- from the coordinator -----------------------------------------------------------------------------------

/// Coordinator to device, in answer to a late `worker_joined`: the worker takes part from now on.
struct slot_given {
  policy_epoch epoch;           ///< the present one
  worker_report so_far{};       ///< what earlier incarnations of this worker did, which this one adds to
  std::uint64_t checkpoint = 0; ///< the last that was taken; the worker is no part of that
};

/// In answer to `trace_reported` and `shard_trace_reported`.
struct trace_taken {};

/// Coordinator of a replay to joining_workers: bring this worker, which came late or came back in the
/// recorded run. It joins late, or a `worker_lost` says why it does not come.
struct bring_worker {
  rank worker;
  incarnation_number incarnation{};
};

/// The owner of a device to that device: leave the run after the present step, when its gradient is answered.
/// An owner that is an actor gets a `worker_left` if the device leaves before the run has ended.
struct leave_run {};

/// Coordinator to device: what the worker waits for will not come, so it reports and ends. The owner of a run
/// sends it to every actor that still lives, which then ends.
struct give_up {};

/// Coordinator to shard, at the end. Answered with `shard_report`.
struct report_shard {};

/// Coordinator to shards and devices, when nothing has happened for a while. Answered with a `wait_reason`
/// for each wait that the actor knows of.
struct list_wait_reasons {};

// -- towards the staleness tracker --------------------------------------------------------------------------

/// Device to tracker, a few times a second: what the worker did since the last notice.
struct worker_progress {
  rank worker;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  std::uint64_t loss_sum_bits = 0; ///< of a double: the sum over the samples
  std::int64_t span = 0;           ///< ns since the last notice
  worker_sums sums{};              ///< of the span
};

/// Coordinator to tracker, once. Answered with `signals_observed` for each window of so many steps.
struct watch_signals {
  std::uint64_t steps = 0;
};
struct signals_observed {
  run_signals what;
};

/// Shard to tracker, or device under hogwild, for every few hundred gradients applied.
struct staleness_observed {
  staleness_histogram gaps;             ///< since the last notice
  std::optional<shard_counts> counts{}; ///< of the shard so far; none from a device
};

// -- to oneself, from any thread ----------------------------------------------------------------------------

/// The runner of a device actor to that actor: the oldest step that was under way has ended.
struct step_ended {};

/// The runner of a device actor to that actor, if the run is traced: the batch of a step has been copied to
/// the device ahead. Moments in ns of the actor's clock.
struct batch_copied {
  step_number step;
  std::int64_t begun = 0; ///< when the copy was queued
  std::int64_t ended = 0; ///< when the device was seen to have it
};

/// A timer to the link of a worker in virtual time: a message that the link carries has arrived.
struct message_due {};

/// The watch of a GPU to an actor with work there: what it waits for is done, or will never be.
struct weights_copied {};

/// A timer to the actor of a shard: the moment has come at which the policy closes a batch.
struct window_over {
  std::int64_t moment = 0; ///< ns of the actor's clock
};

/// The exchange of a device actor to that actor: the gradient of this step now holds the sum of all workers.
struct gradients_summed {
  step_number step;
  sum_tag sum;
};

/// The coordinator to itself: it has waited so long for a worker. The owner to the coordinator: no worker
/// will come any more.
struct wait_over {
  std::uint64_t number = 0; ///< of the wait, from 1; 0: of the owner
};

/// The handler of a worker that leaves to the coordinator, which by then has heard all that the worker has
/// said: whether the run has failed is known now. Answered with `go_on`.
struct verdict_asked {};

/// An actor that computes long work in parts, to itself: messages that arrived before are handled first. Who
/// spawns a replay, to joining_workers: the run has begun.
struct go_on {};

MAILGRAD_FIELDS(worker_joined, worker, device, incarnation, late)
MAILGRAD_FIELDS(worker_lost, worker, why, incarnation)
MAILGRAD_FIELDS(bring_worker, worker, incarnation)
MAILGRAD_FIELDS(wait_over, number)
MAILGRAD_FIELDS(shard_lost, shard, why)
MAILGRAD_FIELDS(feeder_lost, why)
MAILGRAD_FIELDS(stop_training, why, enough)
MAILGRAD_FIELDS(wait_reason, what, span)
MAILGRAD_FIELDS(worker_sums, barrier_wait, bound_wait, feeder_wait, local_bytes)
MAILGRAD_FIELDS(worker_progress, worker, steps, samples, loss_sum_bits, span, sums)
MAILGRAD_FIELDS(watch_signals, steps)
MAILGRAD_FIELDS(batch_copied, step, begun, ended)
MAILGRAD_FIELDS(window_over, moment)
MAILGRAD_FIELDS(gradients_summed, step, sum)

// These carry reports, which only our own inspector can write.

/// Without what checkpoints keep, since no worker of another process is of hogwild.
template <wire::names_fields Inspector>
auto inspect(Inspector& f, worker_finished& x) {
  return wire::fields(f, x, wire::field("report", x.report), wire::field("stages", x.report.stages),
                      wire::field("incarnation", x.incarnation), wire::field("why_left", x.why_left));
}
MAILGRAD_FIELDS_BY_NAME(shard_counts, shard, version, produced, discarded, applied, merged)
MAILGRAD_FIELDS_BY_NAME(staleness_observed, gaps, counts)
/// Without its timeline, whose clock is that of another process.
template <wire::names_fields Inspector>
auto inspect(Inspector& f, shard_report& x) {
  return wire::fields(f, x, wire::field("shard", x.shard), wire::field("version", x.version),
                      wire::field("workers", x.workers), wire::field("values", x.values));
}
MAILGRAD_FIELDS_BY_NAME(trace_piece, device, sent, answered, left_out, events, words)
MAILGRAD_FIELDS_BY_NAME(trace_reported, worker, incarnation, piece)
MAILGRAD_FIELDS_BY_NAME(shard_trace_reported, shard, piece)
template <wire::names_fields Inspector>
auto inspect(Inspector& f, loss_diverged& x) {
  return wire::fields(f, x, wire::field("report", x.report), wire::field("stages", x.report.stages),
                      wire::field("step", x.step), wire::field("incarnation", x.incarnation));
}
template <wire::names_fields Inspector>
auto inspect(Inspector& f, worker_failed& x) {
  return wire::fields(f, x, wire::field("report", x.report), wire::field("stages", x.report.stages),
                      wire::field("step", x.step), wire::field("why", x.why),
                      wire::field("incarnation", x.incarnation), wire::field("leaves_all", x.leaves_all));
}
MAILGRAD_FIELDS_BY_NAME(slot_given, epoch, so_far, checkpoint)

// How the books of a run are told while it goes on: copies of what each actor has counted so far, without
// weights and timelines. No actor waits for another.
//
//     owner --gather_books--> coordinator --copy_books--> every shard --shard_books--> coordinator
//                                         --copy_books--> every device --worker_books--> coordinator
//     coordinator, when all have answered --> the owner's callback
//     owner --tell_books--> coordinator --> the owner's callback, with the newest copies of all

/// An actor that has not answered an earlier question is not asked again.
struct gather_books {
  std::uint64_t request = 0; ///< from 1, rising
};

/// Do not wait for those that have not answered.
struct tell_books {
  std::uint64_t request = 0;
};

/// Coordinator to shards and devices; wait_until_prepared() to shards. Answered as soon as the actor handles
/// messages: by a device after its step, by a shard when it is made or has updated.
struct copy_books {};

/// Gradients that wait for their turn or in a batch stand in no account yet, unless the shard has taken them.
struct shard_books {
  shard_report so_far; ///< without weights
};
struct worker_books {
  worker_report so_far;
};

MAILGRAD_FIELDS(gather_books, request)
MAILGRAD_FIELDS(tell_books, request)
MAILGRAD_FIELDS_BY_NAME(shard_books, so_far)
MAILGRAD_FIELDS_BY_NAME(worker_books, so_far)

// How a run changes its policy: a fence that every worker and every shard passes.
//
//     coordinator --pause_worker--> every device --worker_paused--> coordinator: no worker computes
//     coordinator --switch_policy--> every shard: it takes the gradients under way, closes its batch, begins anew
//     shard --shard_weights of the next epoch--> every device: the worker goes on
//     shard --policy_switched--> coordinator

/// The owner of a run to coordinator.
struct request_switch {
  std::string policy; ///< as make_policy() reads it
  std::string why;
};

/// Coordinator to device: begin no step until the weights of `epoch` are there.
struct pause_worker {
  policy_epoch epoch;
  bool direct = false; ///< the next policy is hogwild: the worker then writes into the shared block
};

/// The answer: all gradients up to `step` are pushed, and none is being computed.
struct worker_paused {
  rank worker;
  policy_epoch epoch;
  step_number step;
  std::uint64_t batches = 0; ///< trained so far
  incarnation_number incarnation{};
};

/// Coordinator to shard: a worker may stand still now, though a batch awaits its gradient, since the policy
/// is about to switch or the worker is about to end. So no other may wait for credit until a gradient of that
/// worker is added up. It holds until the next policy begins.
struct free_credit {};

/// Shard to coordinator, in answer to `switch_policy`: the policy of `epoch` has begun.
struct policy_switched {
  shard_index shard;
  policy_epoch epoch;
};

/// Coordinator to feeder, once. Answered with a `step_reached` at each step where it was made to hold.
struct watch_holds {};

/// `step` batches are dealt, and no more follow until `go_on_dealing`. In a replay `step` is the number of
/// the recorded switch, from 1, that all workers have reached.
struct step_reached {
  std::uint64_t step = 0;
};

/// Coordinator to feeder: from now on deal batches to the workers that ask, or to each rank its own.
struct go_on_dealing {
  bool by_rank = false;
  std::uint64_t held_at = 0; ///< the step at which the feeder holds and may now pass; 0: none
};

MAILGRAD_FIELDS(request_switch, policy, why)
MAILGRAD_FIELDS(pause_worker, epoch, direct)
MAILGRAD_FIELDS(worker_paused, worker, epoch, step, batches, incarnation)
MAILGRAD_FIELDS(switch_policy, epoch, policy, steps, present, incarnations)
MAILGRAD_FIELDS(policy_switched, shard, epoch)
MAILGRAD_FIELDS(step_reached, step)
MAILGRAD_FIELDS(go_on_dealing, by_rank, held_at)

// What the hosts of two processes say to each other: one actor in each process that begins and ends what it
// has of the run. All other messages go from actor to actor, as within one process.
//
//     server --terms_given--> worker's process: it spawns its device actor, which joins
//     server --terms_given--> parameter host: it spawns its shards, and listens for workers
//     parameter host --shards_ready--> server
//     worker's process --worker_leaves--> server: all that it will ever say has been said
//     watcher --run_asked--> server --run_answered--> watcher

/// Once to each process: what its worker is to do (engine/plan/terms.hpp), or which shards it
/// holds.
struct terms_given {
  std::string terms;
};

struct shards_ready {
  std::string address; ///< where workers reach them
};

/// The last message of a worker's process. The server ends the session.
struct worker_leaves {
  bool early = false; ///< before the run had ended, since its owner asked for it
};

/// The network to a worker's host, when the connection to a parameter host has broken, and that host to
/// itself after a while, if the session with the server goes on: then the run goes on without this
/// incarnation. A server that has lost the parameter host as well ends the run meanwhile.
struct shards_unreachable {
  std::string why;
  bool waited = false;
};

/// What a watcher wants to know or to change.
struct run_asked {
  std::uint64_t number = 0; ///< of the question, chosen by the watcher
  std::string what;         ///< "status", "switch", "stop"
  std::string argument;     ///< of "switch" a policy, of "stop" the reason
};

struct run_answered {
  std::uint64_t number = 0;
  bool refused = false;
  std::string text; ///< of a status a JSON object; of a refusal one line
};

MAILGRAD_FIELDS(terms_given, terms)
MAILGRAD_FIELDS(shards_ready, address)
MAILGRAD_FIELDS(worker_leaves, early)
MAILGRAD_FIELDS(shards_unreachable, why, waited)
MAILGRAD_FIELDS(run_asked, number, what, argument)
MAILGRAD_FIELDS(run_answered, number, refused, text)

} // namespace mailgrad
