#pragma once

#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/engine/training_options.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

/// A parameter actor that somebody else wrote, spawned for each shard in the place of ours. The one header of
/// this kind that a program includes to bring its own; demos/own_parameter_actor.cpp is one.
///
/// It gets what ours gets: a shard with its first weights and the optimiser of the run, which makes version
/// t+1 by shard::update(), and who else takes part. It may leave policy, cure and tracker alone. By message
/// it owes:
///
///     join_shard      `shard_weights` to the device that it names, once the worker may start
///     push_gradient   one `shard_weights` to the worker's device, once it may start again; weights are never written
///                     to while somebody holds them
///     worker_left     wait for it no longer
///     report_shard    the answer `shard_report`, an account for each rank: what it took (`produced`, every push once) is
///                     applied, merged, discarded for a reason, or lost; else the run has failed
///     name_waits      a `wait_named` to the sender for each worker that waits
///     give_up         its end
///     switch_policy   if it switches: `policy_switched`, and weights of the next epoch to every worker
///     order_entry      from the first shard to the others, should it send any
///
/// Threads its handlers run one after the other, on any thread of the run; no handler blocks.
struct own_parameter_actor {
  std::string name;      ///< as the report has it
  bool switches = false; ///< answers `switch_policy`; if not, the run refuses every switch
  std::function<caf::actor(caf::actor_system&, parameter_actor_options)> spawn;
};

/// Actors with the state `State(caf::event_based_actor*, parameter_actor_options)`, a `name` and a
/// `make_behavior()`: `options.parameter_actor = make_own_parameter_actor<my_actor>();`
template <class State>
std::shared_ptr<const own_parameter_actor> make_own_parameter_actor(bool switches = false) {
  return std::make_shared<own_parameter_actor>(own_parameter_actor{
      State::name, switches, [](caf::actor_system& system, parameter_actor_options options) {
        return spawn<State>(system, std::move(options));
      }});
}

/// Refuses options under which `o.parameter_actor`, if there is one, cannot work.
///
/// Errors  std::invalid_argument.
void require_own_parameter_actor(const training_options& o, const std::vector<scheduled_policy>& policies);

} // namespace mailgrad
