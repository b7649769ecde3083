#pragma once

#include <mailgrad/actors/protocol/stage_messages.hpp>
#include <mailgrad/actors/protocol/switching_messages.hpp>
#include <mailgrad/actors/protocol/update_messages.hpp>
#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/wait_named.hpp>
#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/shard/order_entry.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/optim/identity.hpp>
#include <mailgrad/optim/policies/auto_rule.hpp>
#include <mailgrad/tensor/snapshot.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// The messages of a run. Headers of their own have push_gradient, the messages that switch the policy
// (switching_messages.hpp), those of stages and update helpers, and the reports at the end
// (actor_reports.hpp). A request is named verb + noun, a notice by a past participle, a reply by a noun.
// Fractions travel as bits, because CAF 0.17 cannot encode every float. Times are nanoseconds of the run's
// time source. Messages that hold memory or statistics cannot leave the process.

namespace mailgrad {

struct recorded_switch; // recording.hpp
struct recording_end;

// -- device actor <-> parameter actor ----------------------------------------------------------------------

/// Device to each shard, once: `worker` takes part, and its weights go to `device`. The shard answers with
/// `shard_weights`.
struct join_shard {
  rank worker;
  incarnation life;
  caf::actor device;
};

/// The weights of a shard just before a gradient was applied to them, alone or in a batch. The shard keeps
/// them for sampled gradients, and under a cure that draws workers towards the weights that they met.
struct weights_met {
  step_number step{}; ///< of the gradient
  snapshot values;
};

/// How long a worker's gradient was at a shard, in ns, in the order in which the spans follow each other.
struct stay_at_shard {
  std::int64_t in_mailbox = 0;     ///< until the shard handled the message
  std::int64_t until_barrier = 0;  ///< then until its barrier opened; 0: there was no barrier
  std::int64_t under_bound = 0;    ///< then for as long as a bound held the worker back; 0: none did
  std::int64_t until_answered = 0; ///< then until this answer
};

/// What a device must know of weights before it uses them. The header can be sent to other processes.
struct weights_header {
  shard_index shard;
  version_number version;
  policy_epoch epoch; ///< a device takes only weights of the epoch it is in
  std::optional<stay_at_shard>
      stay{};        ///< of the answered gradient; none if this answers a join or begins an epoch
  step_number met{}; ///< the step that met `weights_payload::met`; 0: none did
};

/// The weights themselves, in memory of this process.
struct weights_payload {
  snapshot values; ///< not written to while the snapshot is held
  snapshot met{};  ///< the weights met by the worker's last such gradient; each is sent once
};

/// Shard to device, in answer to `join_shard` or `push_gradient`, and when a policy begins: the weights with
/// which the worker may go on. No answer.
struct shard_weights {
  weights_header header;
  weights_payload payload;
};

/// Shard to device, in a replay: the recording has no turn for the worker's gradient of `step`, so the shard
/// never takes it. No answer; the worker fails.
struct turn_missing {
  shard_index shard;
  step_number step;
};

/// Device or coordinator to each shard and the feeder: `worker` takes no further part, so nothing may wait
/// for it. No answer.
struct worker_left {
  rank worker;
};

// -- to oneself --------------------------------------------------------------------------------------------

/// The runner of a device actor to that actor, from any thread: the step that was under way has ended. No
/// answer.
struct step_ended {};

/// An actor that computes long work in parts, to itself: compute the next part. Messages that arrived before
/// are handled first. No answer.
struct go_on {};

// -- between shards ----------------------------------------------------------------------------------------

// The first shard sends each order_entry to every other shard, while the policy requires all shards to judge
// alike: what it judged, in its order. No answer.

// -- recording the order -----------------------------------------------------------------------------------

/// Shard or feeder to recorder, after about a thousand entries, each second and at the end: what it judged or
/// dealt since the last notice. No answer.
struct order_noted {
  shard_index shard; ///< of `turns`
  std::vector<order_entry> turns;
  std::vector<recorded_deal> deals;
};

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

// -- device actor <-> feeder -------------------------------------------------------------------------------

/// Device to feeder, one step before the batch is needed. The feeder answers with `dealt_batch` or
/// `data_exhausted`.
struct next_batch {
  rank worker;
};

/// Feeder to device, in answer to `next_batch`.
struct dealt_batch {
  std::shared_ptr<const batch> values;
};

/// Feeder to device, in answer to `next_batch`: there is no further batch for this worker.
struct data_exhausted {};

/// Coordinator to feeder: answer every further `next_batch` with `data_exhausted`. No answer.
struct stop_dealing {};

// -- towards the staleness tracker -------------------------------------------------------------------------

/// Device to tracker, a few times a second: what the worker did since the last notice. No answer.
struct worker_progress {
  rank worker;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  std::uint64_t loss_sum_bits = 0; ///< of a double: the sum over the steps
  std::int64_t span = 0;           ///< ns since the last notice
  std::int64_t barrier_wait = 0;   ///< ns of the span that the worker waited at barriers
};

/// Coordinator to tracker, once: the tracker shall answer with `signals_observed` each time that this many
/// steps have been trained.
struct watch_signals {
  std::uint64_t steps = 0;
};

/// Tracker to coordinator: loss, staleness and waits of the steps since the last such notice. No answer.
struct signals_observed {
  run_signals what;
};

/// Shard to tracker, or device under hogwild, for every few hundred gradients applied: the version gaps since
/// the last notice. No answer.
struct staleness_observed {
  staleness_histogram gaps;
};

// -- towards the coordinator -------------------------------------------------------------------------------

/// Device to coordinator, as its first message: `device` computes `worker`, and its death is to be watched
/// for. No answer.
struct worker_joined {
  rank worker;
  caf::actor device;
};

/// Device to coordinator, as its last message: the feeder has no further batch, and all gradients are
/// answered. No answer.
struct worker_finished {
  worker_report report;
};

/// Device to coordinator: the loss of `step` is not finite, and the worker has stopped. No answer.
struct loss_diverged {
  worker_report report;
  std::uint64_t step = 0;
};

/// Device to coordinator: a kernel or an update rule failed in `step`, and the worker has stopped. No answer.
struct worker_failed {
  worker_report report;
  std::uint64_t step = 0;
  std::string why;
};

/// To the coordinator, from the watch on a device actor: the actor has ended.
struct worker_lost {
  rank worker;
  std::string why{}; ///< what the exception said that ended the actor; empty if none did
};

/// To the coordinator, from the watch on a parameter actor: the actor has ended, and the weights that workers
/// wait for are lost.
struct shard_lost {
  shard_index shard;
  std::string why{}; ///< what the exception said that ended the actor; empty if none did
};

/// To the coordinator and the recorder, from the watch on the feeder: the actor has ended. Batches, and deals
/// that the recorder was not told, are lost.
struct feeder_lost {
  std::string why{}; ///< what the exception said that ended the actor; empty if none did
};

/// Coordinator to device: what the worker waits for will not come, so it reports and ends. The owner of a run
/// sends it to every actor that still lives, which then ends. No answer.
struct give_up {};

/// Coordinator to shard, at the end. The shard answers with `shard_report`.
struct report_shard {};

/// Coordinator to feeder, at the end of a run with a timeline. The feeder answers with `feeder_report`.
struct report_feeder {};

/// The owner of a run to coordinator: deal no more batches, and end when the dealt ones are trained. No
/// answer.
struct stop_training {
  std::string why;
};

/// Coordinator to shards and devices, when nothing has happened for a while. The actor answers with a
/// `wait_named` for each wait that it knows of.
struct name_waits {};

template <class T>
concept wrapped_number = std::same_as<T, rank> || std::same_as<T, shard_index> ||
    std::same_as<T, step_number> || std::same_as<T, version_number> || std::same_as<T, policy_epoch> ||
    std::same_as<T, run_id> || std::same_as<T, incarnation>;
template <class Inspector, wrapped_number Id>
auto inspect(Inspector& f, Id& x) {
  return wire::fields(f, x, wire::field("value", x.value));
}
template <class Inspector>
auto inspect(Inspector& f, gradient_id& x) {
  return wire::fields(f, x, wire::field("run", x.run), wire::field("worker", x.worker),
                      wire::field("life", x.life), wire::field("step", x.step));
}
template <class Inspector>
auto inspect(Inspector& f, gradient_times& x) {
  return wire::fields(f, x, wire::field("read", x.read), wire::field("compute", x.compute));
}
template <class Inspector>
auto inspect(Inspector& f, gradient_header& x) {
  return wire::fields(f, x, wire::field("id", x.id), wire::field("version_read", x.version_read),
                      wire::field("epoch", x.epoch), wire::field("scale_bits", x.scale_bits),
                      wire::field("times", x.times));
}
template <class Inspector>
auto inspect(Inspector& f, gradient_payload&) {
  return wire::refuse_to_leave(f);
}
template <class Inspector>
auto inspect(Inspector& f, push_gradient& x) {
  return wire::fields(f, x, wire::field("header", x.header), wire::field("payload", x.payload));
}
template <class Inspector>
auto inspect(Inspector& f, stay_at_shard& x) {
  return wire::fields(
      f, x, wire::field("in_mailbox", x.in_mailbox), wire::field("until_barrier", x.until_barrier),
      wire::field("under_bound", x.under_bound), wire::field("until_answered", x.until_answered));
}
template <class Inspector>
auto inspect(Inspector& f, weights_header& x) {
  return wire::fields(f, x, wire::field("shard", x.shard), wire::field("version", x.version),
                      wire::field("epoch", x.epoch), wire::field("stay", x.stay), wire::field("met", x.met));
}
template <class Inspector>
auto inspect(Inspector& f, weights_payload&) {
  return wire::refuse_to_leave(f);
}
template <class Inspector>
auto inspect(Inspector& f, shard_weights& x) {
  return wire::fields(f, x, wire::field("header", x.header), wire::field("payload", x.payload));
}
template <class Inspector>
auto inspect(Inspector& f, worker_left& x) {
  return wire::fields(f, x, wire::field("worker", x.worker));
}
template <class Inspector>
auto inspect(Inspector& f, turn_missing& x) {
  return wire::fields(f, x, wire::field("shard", x.shard), wire::field("step", x.step));
}
template <class Inspector>
auto inspect(Inspector& f, join_shard& x) {
  return wire::fields(f, x, wire::field("worker", x.worker), wire::field("life", x.life),
                      wire::field("device", x.device));
}
template <class Inspector>
auto inspect(Inspector& f, watch_signals& x) {
  return wire::fields(f, x, wire::field("steps", x.steps));
}
template <class Inspector>
auto inspect(Inspector& f, worker_joined& x) {
  return wire::fields(f, x, wire::field("worker", x.worker), wire::field("device", x.device));
}
template <class Inspector>
auto inspect(Inspector& f, order_entry& x) {
  return wire::fields(f, x, wire::field("what", x.what), wire::field("worker", x.worker),
                      wire::field("step", x.step), wire::field("version_read", x.version_read),
                      wire::field("arrived", x.arrived));
}
template <class Inspector>
auto inspect(Inspector& f, recorded_deal& x) {
  return wire::fields(f, x, wire::field("worker", x.worker), wire::field("number", x.number));
}
template <class Inspector>
auto inspect(Inspector& f, order_noted& x) {
  return wire::fields(f, x, wire::field("shard", x.shard), wire::field("turns", x.turns),
                      wire::field("deals", x.deals));
}
template <class Inspector>
auto inspect(Inspector& f, worker_progress& x) {
  return wire::fields(f, x, wire::field("worker", x.worker), wire::field("steps", x.steps),
                      wire::field("samples", x.samples), wire::field("loss_sum_bits", x.loss_sum_bits),
                      wire::field("span", x.span), wire::field("barrier_wait", x.barrier_wait));
}
template <class Inspector>
auto inspect(Inspector& f, next_batch& x) {
  return wire::fields(f, x, wire::field("worker", x.worker));
}
template <class Inspector>
auto inspect(Inspector& f, data_exhausted& x) {
  return wire::fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, stop_dealing& x) {
  return wire::fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, worker_lost& x) {
  return wire::fields(f, x, wire::field("worker", x.worker), wire::field("why", x.why));
}
template <class Inspector>
auto inspect(Inspector& f, shard_lost& x) {
  return wire::fields(f, x, wire::field("shard", x.shard), wire::field("why", x.why));
}
template <class Inspector>
auto inspect(Inspector& f, feeder_lost& x) {
  return wire::fields(f, x, wire::field("why", x.why));
}
template <class Inspector>
auto inspect(Inspector& f, give_up& x) {
  return wire::fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, report_shard& x) {
  return wire::fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, report_feeder& x) {
  return wire::fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, step_ended& x) {
  return wire::fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, go_on& x) {
  return wire::fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, stop_training& x) {
  return wire::fields(f, x, wire::field("why", x.why));
}
template <class Inspector>
auto inspect(Inspector& f, name_waits& x) {
  return wire::fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, wait_named& x) {
  return wire::fields(f, x, wire::field("what", x.what), wire::field("span", x.span));
}

} // namespace mailgrad

CAF_BEGIN_TYPE_ID_BLOCK(mailgrad, first_custom_type_id)

CAF_ADD_TYPE_ID(mailgrad, (mailgrad::rank))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::shard_index))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::step_number))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::version_number))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::policy_epoch))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::run_id))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::incarnation))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::gradient_id))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::gradient_times))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::gradient_header))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::gradient_payload))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::stay_at_shard))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::weights_header))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::weights_payload))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::join_shard))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::push_gradient))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::shard_weights))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::worker_left))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::order_entry))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::order_entry::kind))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::order_noted))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::end_recording))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::switch_noted))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::turn_missing))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::request_switch))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::pause_worker))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::worker_paused))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::switch_policy))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::policy_switched))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::watch_holds))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::step_reached))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::go_on_dealing))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::next_batch))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::dealt_batch))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::data_exhausted))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::stop_dealing))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::worker_progress))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::staleness_observed))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::watch_signals))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::signals_observed))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::worker_joined))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::worker_finished))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::loss_diverged))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::worker_failed))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::worker_lost))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::shard_lost))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::feeder_lost))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::give_up))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::report_shard))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::shard_report))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::report_feeder))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::feeder_report))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::stop_training))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::name_waits))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::wait_named))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::compute_step))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::values_computed))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::values_used))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::step_computed))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::stage_failed))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::stage_lost))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::go_on))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::step_ended))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::help_update))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::update_helped))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::update_failed))

CAF_END_TYPE_ID_BLOCK(mailgrad)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::end_recording)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::switch_noted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::dealt_batch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::staleness_observed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::signals_observed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::worker_finished)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::loss_diverged)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::worker_failed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::shard_report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::compute_step)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::values_computed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::step_computed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::stage_failed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::feeder_report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::help_update)
