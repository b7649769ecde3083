#pragma once

#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/engine/shard/switch_policy.hpp>
#include <mailgrad/optim/identity.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <cstdint>
#include <string>

// How a run changes its policy: a fence that every worker and every shard passes.
//
//     coordinator --pause_worker--> every device --worker_paused--> coordinator: no worker computes
//     coordinator --switch_policy--> every shard: it takes the gradients under way, closes its batch, begins anew
//     shard --shard_weights of the next epoch--> every device: the worker goes on
//     shard --policy_switched--> coordinator

namespace mailgrad {

/// The owner of a run to coordinator: switch to `policy`, a text that make_policy() reads. No answer.
struct request_switch {
  std::string policy;
  std::string why;
};

/// Coordinator to device: begin no step until the weights of `epoch` are there. The device answers with
/// `worker_paused`.
struct pause_worker {
  policy_epoch epoch;
  bool direct = false; ///< the next policy is hogwild: the worker then writes into the shared block
};

/// Device to coordinator, in answer to `pause_worker`: all gradients up to `step` are pushed, and none is
/// being computed.
struct worker_paused {
  rank worker;
  policy_epoch epoch;
  step_number step;
  std::uint64_t batches = 0; ///< trained so far
  incarnation life{};
};

/// Coordinator to shard: a worker may stand still now, though a batch awaits its gradient, since the policy
/// is about to switch or the worker is about to end. So no other may wait for credit until a gradient of that
/// worker is added up. It holds until the next policy begins. No answer.
struct free_credit {};

/// Shard to coordinator, in answer to `switch_policy`: the policy of `epoch` has begun.
struct policy_switched {
  shard_index shard;
  policy_epoch epoch;
};

/// Coordinator to feeder, once. The feeder answers with a `step_reached` at each step where it was made to
/// hold.
struct watch_holds {};

/// Feeder to coordinator: `step` batches are dealt, and no more follow until `go_on_dealing`. In a replay
/// `step` is the number of the recorded switch, from 1, that all workers have reached.
struct step_reached {
  std::uint64_t step = 0;
};

/// Coordinator to feeder: from now on deal batches to the workers that ask, or to each rank its own. No
/// answer.
struct go_on_dealing {
  bool by_rank = false;
  std::uint64_t held_at = 0; ///< the step at which the feeder holds and may now pass; 0: none
};

template <class Inspector>
auto inspect(Inspector& f, request_switch& x) {
  return wire::fields(f, x, wire::field("policy", x.policy), wire::field("why", x.why));
}
template <class Inspector>
auto inspect(Inspector& f, pause_worker& x) {
  return wire::fields(f, x, wire::field("epoch", x.epoch), wire::field("direct", x.direct));
}
template <class Inspector>
auto inspect(Inspector& f, worker_paused& x) {
  return wire::fields(f, x, wire::field("worker", x.worker), wire::field("epoch", x.epoch),
                      wire::field("step", x.step), wire::field("batches", x.batches),
                      wire::field("life", x.life));
}
template <class Inspector>
auto inspect(Inspector& f, switch_policy& x) {
  return wire::fields(f, x, wire::field("epoch", x.epoch), wire::field("policy", x.policy),
                      wire::field("steps", x.steps), wire::field("present", x.present),
                      wire::field("lives", x.lives));
}
template <class Inspector>
auto inspect(Inspector& f, free_credit& x) {
  return wire::fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, policy_switched& x) {
  return wire::fields(f, x, wire::field("shard", x.shard), wire::field("epoch", x.epoch));
}
template <class Inspector>
auto inspect(Inspector& f, watch_holds& x) {
  return wire::fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, step_reached& x) {
  return wire::fields(f, x, wire::field("step", x.step));
}
template <class Inspector>
auto inspect(Inspector& f, go_on_dealing& x) {
  return wire::fields(f, x, wire::field("by_rank", x.by_rank), wire::field("held_at", x.held_at));
}

} // namespace mailgrad
