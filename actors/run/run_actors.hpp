#pragma once

#include <mailgrad/actors/run/coordinator.hpp>
#include <mailgrad/actors/training.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {

struct device_actor_options;

/// A run, ready to begin, and whom it tells of its course.
struct run_actors_options {
  model_function model;
  std::shared_ptr<const data_split> data;
  training_options run; ///< checked
  std::vector<scheduled_policy> policies;
  model_request request; ///< of the run; that of a worker is request_of()
  std::shared_ptr<const parameter_layout> layout;
  std::shared_ptr<const time_source> time;
  instant created{0};    ///< where timelines begin
  caf::actor recorder{}; ///< gets the order of the run, if anybody does
  // Called by actors, until give_up() returns; must not block.
  std::function<void(const training_progress&)> on_progress{};
  std::function<void(run_outcome)> on_end{};        ///< once
  std::function<void(const wait_named&)> on_wait{}; ///< for each wait somebody asked to name
};

/// The actors of a run, and the system they live in.
///
/// Never   ends them by itself: whoever owns what the callbacks refer to calls give_up() before that is destroyed.
/// Threads coordinator() and store(): any, after start(); the rest: the owner's.
class run_actors {
public:
  /// Their home, a thread for each core among `devices`. Nobody lives there yet.
  explicit run_actors(const std::vector<device>& devices);

  caf::actor_system& system() noexcept { return home_.system(); }

  /// Spawns them, once; devices come last, and the run is on.
  ///
  /// Errors  graph_error, std::system_error: a replica that cannot be built. Nobody lives then, and the run cannot be used.
  void start(run_actors_options options);

  /// Ends them, the recorder last, and blocks until no actor lives.
  void give_up();

  /// When the first device was about to be spawned.
  instant started() const noexcept { return started_; }
  /// Mini-batches of the whole run, by all workers.
  std::uint64_t total_steps() const noexcept { return total_steps_; }
  std::size_t shard_count() const noexcept { return shards_.size(); }
  /// What workers share under hogwild; null if no policy of the run is that.
  const hogwild_store* store() const noexcept { return store_.get(); }
  const caf::actor& feeder() const noexcept { return feeder_; }
  const caf::actor& coordinator() const noexcept { return coordinator_; }

private:
  struct config : caf::actor_system_config {
    explicit config(std::size_t threads);
  };

  std::uint32_t workers() const;
  const std::string& first_policy() const { return options_.policies.front().policy; }
  std::shared_ptr<const parameter_layout> replica_layout() const;
  std::shared_ptr<trace_track> new_track(std::string name) const;
  bool sums_apart() const;
  void spawn_tracker();
  void share_block();
  void spawn_shards();
  void spawn_feeder();
  void spawn_coordinator();
  void spawn_devices();
  void give_model(device_actor_options& options);

  std::shared_ptr<hogwild_store> store_;
  std::uint64_t total_steps_ = 0;
  instant started_{0};

  config config_;
  actor_home home_{config_};
  run_actors_options
      options_; ///< and all that holds an actor: its home, which waits for the last, goes after it
  std::vector<caf::actor> hands_; ///< for updates: threads that rest while a shard is at work
  std::vector<caf::actor> shards_;
  std::vector<caf::actor> devices_;
  std::vector<caf::actor> pieces_; ///< of workers that span several devices
  caf::actor feeder_;
  caf::actor tracker_;
  caf::actor coordinator_;
};

/// What the graph of one worker has to fit, in a run of `request`.
model_request request_of(std::uint32_t worker, model_request request, const training_options& o);

} // namespace mailgrad
