#pragma once

#include <mailgrad/actors/protocol/caf_compat.hpp>
#include <mailgrad/actors/protocol/piece_messages.hpp>
#include <mailgrad/actors/protocol/switching_messages.hpp>
#include <mailgrad/actors/protocol/update_messages.hpp>
#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/wait_named.hpp>
#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/shard/order_entry.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/optim/policies/auto_rule.hpp>
#include <mailgrad/optim/policies/policy.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// Every message of a run; push_gradient has a header of its own, those that switch its policy lie in
// switching_messages.hpp, what is reported at the end in actor_reports.hpp. A request is verb + noun, a
// notice a past participle, a reply a noun. Numbers with a fraction travel as their bits (CAF 0.17 cannot
// encode every float), times as nanoseconds of the run's time source. Messages with memory or statistics in
// them stay inside the process.

namespace mailgrad {

struct recorded_switch; // recording.hpp
struct recording_end;

// -- device actor <-> parameter actor ----------------------------------------------------------------------

/// Device to each shard, once: the weights of `worker` go to `device`. Answered with `shard_weights`.
struct join_shard {
  rank worker;
  caf::actor device;
};

/// The weights of a shard as they were just before a gradient was applied to them, by itself or in a batch:
/// one that is sampled, or what stands for one under a cure that draws workers to what they met.
struct weights_met {
  std::uint64_t step = 0; ///< of the gradient
  std::shared_ptr<const block> values;
};

/// Shard to device: the weights as of `version`, which nobody writes to while they are held.
struct shard_weights {
  std::uint32_t shard = 0;
  std::uint64_t version = 0;
  std::uint64_t epoch = 0; ///< of the policy; a device takes only those of the epoch it is in
  std::int64_t waited = 0; ///< ns that the worker's gradient lay here before its barrier opened
  std::int64_t held = 0;   ///< ns that a bound kept the worker, though its gradient was taken
  std::shared_ptr<const block> values;
  std::int64_t taken = 0; ///< the moment its gradient was taken from the mailbox; 0: there was none
  std::int64_t sent = 0;  ///< the moment
  weights_met met{};      ///< by the worker's last such gradient, unless an answer before this has told
};

/// Shard to device, in a replay: the recording has no turn for its gradient of `step`, which is never taken.
struct turn_missing {
  std::uint32_t shard = 0;
  std::uint64_t step = 0;
};

/// Device or coordinator to each shard and the feeder: `worker` takes no further part; nobody waits for it.
/// No answer.
struct worker_left {
  rank worker;
};

// -- to oneself --------------------------------------------------------------------------------------------

/// Whoever computes a long work in parts: after each it looks at its mailbox first. No answer.
struct go_on {};

// -- between shards ----------------------------------------------------------------------------------------

// First shard to every other, while the policy wants all of them to judge alike: order_entry, what it judged,
// in its order. No answer.

// -- recording the order -----------------------------------------------------------------------------------

/// Shard or feeder to recorder, every thousand or so, each second and at the end: what it judged or dealt
/// since the last notice. No answer.
struct order_noted {
  std::uint32_t shard = 0; ///< of `turns`
  std::vector<order_entry> turns;
  std::vector<recorded_deal> deals;
};

/// Coordinator to recorder, before the shards hear of it: a switch begins. No answer.
struct switch_noted {
  std::shared_ptr<const recorded_switch> what;
};

/// The owner of a run to the recorder, when the run has ended: nothing follows but what the feeder has not
/// told. Passed on to the feeder, who tells that and sends it back. No answer.
struct end_recording {
  std::shared_ptr<const recording_end> what;
  caf::actor feeder{}; ///< who may have more to tell; none: nobody
};

// -- device actor <-> feeder -------------------------------------------------------------------------------

/// Device to feeder, one ahead of the step that needs it. Answered with `dealt_batch` or `data_exhausted`.
struct next_batch {
  rank worker;
};

struct dealt_batch {
  std::shared_ptr<const batch> values;
};

struct data_exhausted {};

/// Coordinator to feeder: every further `next_batch` is answered with `data_exhausted`. No answer.
struct stop_dealing {};

// -- towards the staleness tracker -------------------------------------------------------------------------

/// Device to tracker, a few times a second: what it did since the last notice. No answer.
struct worker_progress {
  rank worker;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  double loss_sum = 0;           ///< over the steps; inside the process only
  std::int64_t span = 0;         ///< ns that the notice is about,
  std::int64_t barrier_wait = 0; ///< and those of them at a barrier
};

/// Coordinator to tracker, once: tell me what you see each so many steps. Answered with `signals_observed`,
/// again and again.
struct watch_signals {
  std::uint64_t steps = 0;
};

/// Tracker to coordinator: the steps since the last such notice.
struct signals_observed {
  run_signals what;
};

/// Whoever applies gradients (shard; device in hogwild) to tracker, every few hundred: gaps since the last
/// notice. No answer.
struct staleness_observed {
  staleness_histogram gaps;
};

// -- towards the coordinator -------------------------------------------------------------------------------

/// Device to coordinator, first of all: whose death to watch for.
struct worker_joined {
  rank worker;
  caf::actor device;
};

/// Device to coordinator: the feeder has no more for it, all its gradients are answered.
struct worker_finished {
  worker_report report;
};

/// Device to coordinator: `step` of this worker gave a loss that is no finite number; the worker has stopped.
struct loss_diverged {
  worker_report report;
  std::uint64_t step = 0;
};

/// Device to coordinator: a kernel or an update rule failed in `step` of this worker; the worker has stopped.
struct worker_failed {
  worker_report report;
  std::uint64_t step = 0;
  std::string why;
};

/// The device actor is gone (sent by watching it).
struct worker_lost {
  rank worker;
  std::string why{}; ///< what it said last, if an exception ended it
};

/// A parameter actor is gone, and with it the weights that workers wait for (sent by watching it).
struct shard_lost {
  std::uint32_t shard = 0;
  std::string why{}; ///< what it said last, if an exception ended it
};

/// The feeder is gone, and with it the batches, and what it had not told the recorder (sent by watching it).
struct feeder_lost {
  std::string why{}; ///< what it said last, if an exception ended it
};

/// Coordinator to device: what you wait for will not come; the worker reports and ends. The owner of a run to
/// every actor that still lives: end. No answer.
struct give_up {};

/// Coordinator to shard at the end. Answered with `shard_report`.
struct report_shard {};

/// Coordinator to feeder at the end, if that has a timeline. Answered with `feeder_report`.
struct report_feeder {};

/// From outside to coordinator: end the run in good order. No answer.
struct stop_training {
  std::string why;
};

/// Coordinator to shards and devices, when nothing has moved for a while. Answered with a `wait_named` for
/// each wait that the asked actor knows of.
struct name_waits {};

template <class Inspector>
auto inspect(Inspector& f, rank& x) {
  return fields(f, x, field("value", x.value));
}
template <class Inspector>
auto inspect(Inspector& f, worker_left& x) {
  return fields(f, x, field("worker", x.worker));
}
template <class Inspector>
auto inspect(Inspector& f, turn_missing& x) {
  return fields(f, x, field("shard", x.shard), field("step", x.step));
}
template <class Inspector>
auto inspect(Inspector& f, join_shard& x) {
  return fields(f, x, field("worker", x.worker), field("device", x.device));
}
template <class Inspector>
auto inspect(Inspector& f, watch_signals& x) {
  return fields(f, x, field("steps", x.steps));
}
template <class Inspector>
auto inspect(Inspector& f, worker_joined& x) {
  return fields(f, x, field("worker", x.worker), field("device", x.device));
}
template <class Inspector>
auto inspect(Inspector& f, order_entry& x) {
  return fields(f, x, field("what", x.what), field("worker", x.worker), field("step", x.step),
                field("version_read", x.version_read), field("arrived", x.arrived));
}
template <class Inspector>
auto inspect(Inspector& f, next_batch& x) {
  return fields(f, x, field("worker", x.worker));
}
template <class Inspector>
auto inspect(Inspector& f, data_exhausted& x) {
  return fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, stop_dealing& x) {
  return fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, worker_lost& x) {
  return fields(f, x, field("worker", x.worker), field("why", x.why));
}
template <class Inspector>
auto inspect(Inspector& f, shard_lost& x) {
  return fields(f, x, field("shard", x.shard), field("why", x.why));
}
template <class Inspector>
auto inspect(Inspector& f, feeder_lost& x) {
  return fields(f, x, field("why", x.why));
}
template <class Inspector>
auto inspect(Inspector& f, give_up& x) {
  return fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, report_shard& x) {
  return fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, report_feeder& x) {
  return fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, go_on& x) {
  return fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, stop_training& x) {
  return fields(f, x, field("why", x.why));
}
template <class Inspector>
auto inspect(Inspector& f, name_waits& x) {
  return fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, wait_named& x) {
  return fields(f, x, field("what", x.what), field("since", x.since));
}

} // namespace mailgrad

CAF_BEGIN_TYPE_ID_BLOCK(mailgrad, first_custom_type_id)

CAF_ADD_TYPE_ID(mailgrad, (mailgrad::rank))
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
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::piece_failed))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::piece_lost))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::go_on))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::help_update))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::update_helped))
CAF_ADD_TYPE_ID(mailgrad, (mailgrad::update_failed))

CAF_END_TYPE_ID_BLOCK(mailgrad)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::push_gradient)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::shard_weights)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::order_noted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::end_recording)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::switch_noted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::dealt_batch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::staleness_observed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::signals_observed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::worker_progress)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::worker_finished)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::loss_diverged)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::worker_failed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::shard_report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::compute_step)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::values_computed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::step_computed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::piece_failed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::feeder_report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::help_update)
