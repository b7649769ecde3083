#pragma once

#include <mailgrad/actors/shard/parameter_actor.hpp>

namespace mailgrad {

/// The base of a parameter actor of the user's own, which takes the place of ours for every shard of a run.
/// It lets workers join and leave, drops repeats, keeps the accounts and answers the messages of the
/// protocol; it names no waits. A class that derives from it has a `name`, inherits the constructor, and
/// decides what becomes of each gradient:
///
///     struct every_gradient : custom_parameter_actor {
///       static constexpr const char* name = "my.every-gradient";
///       using custom_parameter_actor::custom_parameter_actor;
///       void on_gradient(const push_gradient& x) override {
///         apply(x);
///         send_weights(x.header.id.worker);
///       }
///     };
///
///     options.parameter_actor = make_custom_parameter_actor<every_gradient>();
///
/// Each gradient is applied, merged or discarded once, or the run has failed. Each worker that takes part
/// gets weights once for each gradient, as it waits for them.
/// Threads its handlers run one after the other, on any thread of the run; no handler blocks.
class custom_parameter_actor {
public:
  custom_parameter_actor(caf::event_based_actor* self, parameter_actor_options options);
  virtual ~custom_parameter_actor() = default;
  custom_parameter_actor(const custom_parameter_actor&) = delete;
  custom_parameter_actor& operator=(const custom_parameter_actor&) = delete;

  virtual caf::behavior make_behavior();

protected:
  /// A worker that takes part has pushed this gradient. It comes once.
  virtual void on_gradient(const push_gradient& x) = 0;
  /// A worker that the run has from its begin is ready for its first step.
  virtual void on_join(rank worker) { send_weights(worker); }
  /// A worker takes part no longer; what it had pushed may still be applied.
  virtual void on_leave(rank) {}

  /// Makes the next version of the weights from this gradient alone.
  void apply(const push_gradient& x);
  /// Makes the next version from these gradients together, by what the caller has made of them, such as their
  /// mean: `contribution_of` each, or one contribution in the place of all.
  void merge(std::span<const push_gradient> gradients, std::span<const contribution> made);
  /// The gradient makes no update. The report counts it under the reason.
  void discard(const push_gradient& x, const std::string& reason);
  /// Sends the present weights to a worker, which begins its next step. Nothing happens if it has left.
  void send_weights(rank worker);

  /// Whether this rank has not left. A barrier also waits for one that has not joined yet.
  bool takes_part(rank worker) const { return !workers_[worker.value].gone; }
  std::uint32_t workers() const noexcept { return static_cast<std::uint32_t>(workers_.size()); }
  shard& weights() noexcept { return *options_.weights; }
  const shard& weights() const noexcept { return *options_.weights; }
  const parameter_actor_options& options() const noexcept { return options_; }
  caf::event_based_actor* self() const noexcept { return self_; }

private:
  struct place {
    caf::actor device; ///< null until it has joined
    bool gone = false;
  };

  void take(const push_gradient& x);
  worker_account& account_of(const push_gradient& x) { return accounts_[x.header.id.worker.value]; }
  void count_gap(const push_gradient& x);

  caf::event_based_actor* self_;
  parameter_actor_options options_;
  std::vector<place> workers_;           ///< by rank
  std::vector<worker_account> accounts_; ///< by rank
};

/// How much a gradient counts in an update: with the factor by which its worker clipped it.
contribution contribution_of(const push_gradient& x);

/// What a run knows of such a class, and how it spawns an actor for each shard.
class custom_parameter_actor_kind : public parameter_actor_kind {
public:
  using parameter_actor_kind::parameter_actor_kind;
  virtual caf::actor spawn(caf::actor_system& system, parameter_actor_options options) const = 0;
};

/// Spawns actors with the state `State`: a class that derives from custom_parameter_actor, or any with a
/// `name`, a constructor `(caf::event_based_actor*, parameter_actor_options)` and a `make_behavior()`. The
/// latter answers by itself:
///
///     join_shard         `shard_weights` to the device that it names, once the worker may start
///     push_gradient      one `shard_weights` to the worker's device, once it may start again; weights are
///                        never written to while an actor holds them
///     worker_left        no answer; the actor waits for that worker no longer
///     report_shard       the answer `shard_report`, an account for each rank: what it took (`produced`, every
///                        push once) is applied, merged, discarded for a reason, or lost; else the run has
///                        failed
///     list_wait_reasons  a `wait_reason` to the sender for each worker that waits
///     give_up            no answer; the actor ends
///     switch_policy      if it `switches`: `policy_switched`, and weights of the next epoch to every worker
///     order_entry        from the first shard to the others, should it send any
///
/// With `static constexpr bool whole_variables = true`, shards are cut between variables only.
template <class State>
std::shared_ptr<const custom_parameter_actor_kind> make_custom_parameter_actor(bool switches = false) {
  class kind final : public custom_parameter_actor_kind {
  public:
    using custom_parameter_actor_kind::custom_parameter_actor_kind;
    caf::actor spawn(caf::actor_system& system, parameter_actor_options options) const override {
      return messaging::spawn<State>(system, std::move(options));
    }
  };
  bool whole = false;
  if constexpr (requires { State::whole_variables; }) whole = State::whole_variables;
  return std::make_shared<kind>(State::name, switches, whole);
}

} // namespace mailgrad
