#pragma once

#include <mailgrad/actors/protocol/caf_compat.hpp>
#include <mailgrad/optim/policies/policy.hpp>

#include <cstdint>
#include <string>
#include <vector>

// How a run changes its policy: a fence that every worker and every shard passes.
//
//     coordinator --pause_worker--> every device --worker_paused--> coordinator: nothing is computed any more
//     coordinator --switch_policy--> every shard: takes what is still under way, closes its batch, begins anew
//     shard --shard_weights of the next epoch--> every device: goes on;  shard --policy_switched--> coordinator

namespace mailgrad {

/// From outside to coordinator: from now on `policy`, as make_policy() reads it. No answer.
struct request_switch {
  std::string policy;
  std::string why;
};

/// Coordinator to device: begin no step until the weights of `epoch` are there. Answered with
/// `worker_paused`.
struct pause_worker {
  std::uint64_t epoch = 0;
  bool direct = false; ///< under the next policy the worker writes into the shared block: hogwild
};

/// Device to coordinator: all gradients up to `step` are pushed, and none is computed.
struct worker_paused {
  rank worker;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint64_t batches = 0; ///< trained so far
};

/// Coordinator to shard: when the gradients of each worker up to `steps` (by rank) are taken, `policy`
/// begins. Answered with `policy_switched`.
struct switch_policy {
  std::uint64_t epoch = 0;
  std::string policy;
  std::vector<std::uint64_t> steps;
  std::vector<std::uint8_t> present; ///< by rank, 0: takes no part in it
};

struct policy_switched {
  std::uint32_t shard = 0;
  std::uint64_t epoch = 0;
};

/// Coordinator to feeder, once: tell me where you hold. Answered with a `step_reached` for each step that the
/// feeder was born to hold at.
struct watch_holds {};

/// Feeder to coordinator: `step` batches are dealt, and no more until `go_on_dealing`. In a replay: all
/// workers have come to the recorded switch of that number, from 1.
struct step_reached {
  std::uint64_t step = 0;
};

/// Coordinator to feeder: from now on batches go to whoever asks, or to each rank its own. No answer.
struct go_on_dealing {
  bool by_rank = false;
  std::uint64_t held_at =
      0; ///< the step that the feeder holds at and is now past; 0: it goes on holding, if it does
};

template <class Inspector>
auto inspect(Inspector& f, request_switch& x) {
  return fields(f, x, field("policy", x.policy), field("why", x.why));
}
template <class Inspector>
auto inspect(Inspector& f, pause_worker& x) {
  return fields(f, x, field("epoch", x.epoch), field("direct", x.direct));
}
template <class Inspector>
auto inspect(Inspector& f, worker_paused& x) {
  return fields(f, x, field("worker", x.worker), field("epoch", x.epoch), field("step", x.step),
                field("batches", x.batches));
}
template <class Inspector>
auto inspect(Inspector& f, switch_policy& x) {
  return fields(f, x, field("epoch", x.epoch), field("policy", x.policy), field("steps", x.steps),
                field("present", x.present));
}
template <class Inspector>
auto inspect(Inspector& f, policy_switched& x) {
  return fields(f, x, field("shard", x.shard), field("epoch", x.epoch));
}
template <class Inspector>
auto inspect(Inspector& f, watch_holds& x) {
  return fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, step_reached& x) {
  return fields(f, x, field("step", x.step));
}
template <class Inspector>
auto inspect(Inspector& f, go_on_dealing& x) {
  return fields(f, x, field("by_rank", x.by_rank), field("held_at", x.held_at));
}

} // namespace mailgrad
