#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/engine/plan/training_options.hpp>

#include <memory>
#include <utility>

namespace mailgrad {

/// A parameter actor of the user's own, spawned for each shard in place of the built-in one. A program that
/// brings one includes only this header; demos/own_parameter_actor.cpp is an example.
///
/// The actor gets the options of the built-in one: a shard with its first weights and the optimiser of the
/// run, which makes version t+1 by shard::update(), the layout of all shards with the names, shapes and
/// places of variables, and the other actors. It may ignore policy, cure and tracker. It must answer these
/// messages:
///
///     join_shard      `shard_weights` to the device that it names, once the worker may start
///     push_gradient   one `shard_weights` to the worker's device, once it may start again; weights are never written
///                     to while an actor holds them
///     worker_left     no answer; the actor waits for that worker no longer
///     report_shard    the answer `shard_report`, an account for each rank: what it took (`produced`, every push once) is
///                     applied, merged, discarded for a reason, or lost; else the run has failed
///     name_waits      a `wait_named` to the sender for each worker that waits
///     give_up         no answer; the actor ends
///     switch_policy   if it switches: `policy_switched`, and weights of the next epoch to every worker
///     order_entry      from the first shard to the others, should it send any
///
/// Threads its handlers run one after the other, on any thread of the run; no handler blocks.
class own_parameter_actor : public parameter_actor_kind {
public:
  using parameter_actor_kind::parameter_actor_kind;
  virtual caf::actor spawn(caf::actor_system& system, parameter_actor_options options) const = 0;
};

/// Spawns actors with the state `State(caf::event_based_actor*, parameter_actor_options)`, a `name` and a
/// `make_behavior()`. With `static constexpr bool whole_variables = true`, shards are cut between variables
/// only. `options.parameter_actor = make_own_parameter_actor<my_actor>();`
template <class State>
std::shared_ptr<const own_parameter_actor> make_own_parameter_actor(bool switches = false) {
  class kind final : public own_parameter_actor {
  public:
    using own_parameter_actor::own_parameter_actor;
    caf::actor spawn(caf::actor_system& system, parameter_actor_options options) const override {
      return messaging::spawn<State>(system, std::move(options));
    }
  };
  bool whole = false;
  if constexpr (requires { State::whole_variables; }) whole = State::whole_variables;
  return std::make_shared<kind>(State::name, switches, whole);
}

} // namespace mailgrad
