#pragma once

#include <mailgrad/actors/run/coordinator.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/training_progress.hpp>
#include <mailgrad/engine/run_plan.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {

struct device_actor_options;

/// Which actors of a run live in this system; a process may have some of them.
struct crew_roles {
  bool shards = true;
  bool feeder = true;
  bool coordinator = true;
  bool workers = true; ///< needs the other three
};

/// Whom the actors of a run tell of its course, and what else is not a decision of the plan.
struct run_crew_options {
  std::shared_ptr<const time_source> time;
  instant created{0};    ///< where timelines begin
  caf::actor recorder{}; ///< gets the order of the run, if anybody does
  /// The coordinator answers callers from outside even while every thread computes a step.
  bool coordinator_has_thread = true;
  crew_roles roles{};
  // Called by actors, until none of them lives; must not block.
  std::function<void(const training_progress&)> on_progress{};
  std::function<void(run_outcome)> on_end{};        ///< once
  std::function<void(const wait_named&)> on_wait{}; ///< for each wait somebody asked to name
  /// What a worker takes for a shard: an actor that stands between both, or the shard itself.
  std::function<caf::actor(rank worker, std::uint32_t shard, const caf::actor& handle)> between{};
};

/// The actors of a run, spawned as a plan says. This is the one place that wires them, on whatever system:
/// threads of their own, a test that steps through messages, a virtual clock.
///
/// Never   owns a thread, and never waits: who owns the system waits until no actor lives, before anything is
///         destroyed that the callbacks refer to.
/// Threads coordinator() and store(): any; the rest: the owner's.
class run_crew {
public:
  /// Spawns them; the devices come last, and the run is on.
  ///
  /// Errors  graph_error, std::system_error: a replica that cannot be built. Those who live then are told to
  ///         give up.
  run_crew(caf::actor_system& system, run_plan plan, run_crew_options options);

  /// Tells them to end, the recorder last.
  void give_up();

  /// When the first device was about to be spawned.
  instant started() const noexcept { return started_; }
  /// What workers share under hogwild; null if no policy of the run is that.
  const hogwild_store* store() const noexcept { return store_.get(); }
  const caf::actor& feeder() const noexcept { return feeder_; }
  const caf::actor& tracker() const noexcept { return tracker_; }
  const caf::actor& coordinator() const noexcept { return coordinator_; }
  const std::vector<caf::actor>& helpers() const noexcept { return helpers_; }
  const std::vector<caf::actor>& shards() const noexcept { return shards_; }
  const std::vector<caf::actor>& devices() const noexcept { return devices_; }
  /// Of all workers that span several devices, one behind the other.
  const std::vector<caf::actor>& pieces() const noexcept { return pieces_; }

private:
  std::shared_ptr<trace_track> new_track(std::string name) const;
  void spawn_all();
  void spawn_tracker();
  void share_block();
  void spawn_shards();
  caf::actor spawn_shard(std::uint32_t s);
  void spawn_feeder();
  void spawn_coordinator();
  void spawn_device(std::uint32_t worker);
  void give_model(device_actor_options& options);

  caf::actor_system& system_;
  run_plan plan_;
  run_crew_options options_;
  std::shared_ptr<hogwild_store> store_;
  instant started_{0};
  std::vector<caf::actor> helpers_;
  std::vector<caf::actor> shards_;
  std::vector<caf::actor> devices_;
  std::vector<caf::actor> pieces_;
  caf::actor feeder_;
  caf::actor tracker_;
  caf::actor coordinator_;
};

} // namespace mailgrad
