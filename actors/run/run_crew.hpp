#pragma once

#include <mailgrad/actors/run/coordinator.hpp>
#include <mailgrad/actors/worker/spawn_worker.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>

namespace mailgrad {

/// The actor system of a run.
///
/// Threads system(): any; the rest: the owner's.
class run_home {
public:
  /// Makes a system without actors, with a thread for each core among `devices`.
  explicit run_home(const std::vector<device>& devices);

  caf::actor_system& system() noexcept { return home_.system(); }

  /// Blocks until no actor lives.
  void wait() { home_.wait(); }

private:
  struct config : caf::actor_system_config {
    explicit config(std::size_t threads);
  };

  config config_;
  messaging::actor_home home_{config_};
};

/// Waits until each of these shards has the memory that it begins with, on a thread that no actor needs. A
/// shard takes it on a thread of its own when it is first scheduled.
///
/// Errors  out_of_memory: a shard lacks some; std::runtime_error: a shard has ended otherwise. Both have its
///         last words.
void wait_until_prepared(caf::actor_system& system, std::span<const caf::actor> shards);

/// Brings the workers of a replay that came later in the recorded run, when the coordinator asks for them.
///
/// Guarantees  who was brought is told to give up when this actor is. A worker belongs to the coordinator
///             that asked for it, which may do so before its spawner knows the coordinator's own handle.
/// Never       calls the spawner before it is told to go on.
///
///     held --go_on--> bringing --bring_worker--> the worker's actors are spawned
///       \--give_up--> ended, whoever was asked for
class joining_workers : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.joining-workers";

  /// Spawns the actors of a worker that joins late under this coordinator; may throw.
  using spawner = std::function<std::vector<caf::actor>(rank worker, incarnation_number incarnation,
                                                        const caf::actor& coordinator)>;

  joining_workers(caf::event_based_actor* self, spawner spawn) : actor_part(self), spawn_(std::move(spawn)) {}
  caf::behavior make_behavior();

private:
  caf::behavior held();
  caf::behavior bringing();
  void bring(const bring_worker& x);

  spawner spawn_;
  std::vector<caf::actor> brought_;
};

class event_watch;
class step_runner;

/// Which actors of a run live in this system. A process may have only some of them.
struct crew_roles {
  bool shards = true;
  bool feeder = true;
  bool coordinator = true; ///< needs the feeder
  bool workers = true;     ///< needs the other three
};

/// The callbacks of a run, and what else is not a decision of the plan.
struct run_crew_options {
  std::shared_ptr<const time_source> time;
  instant created{0};                 ///< where timelines begin
  caf::actor recorder{};              ///< gets the order of the run; null if it is not recorded
  caf::actor observer{};              ///< gets lines, tests and switches; null if nobody observes
  std::function<bool()> stop_tests{}; ///< asked during a test of the weights; true: give it up
  /// Called with the result of each test and the weights, float32[layout->size()]; may block.
  std::function<void(const evaluation_made&, std::span<const float>)> on_tested{};
  caf::actor checkpoint_writer{}; ///< null if the run takes no checkpoints
  /// Whether the coordinator answers callers even while every thread computes a step.
  bool coordinator_has_thread = true;
  crew_roles roles{};
  block_source blocks{}; ///< where shards lie; null: in memory of this process
  /// As in parameter_actor_options, of a shard; empty: nobody need know.
  std::function<void(std::uint32_t shard, std::optional<rank> first, version_number version)> awaits{};
  bool shares_credit = false; ///< as in coordinator_options
  /// The shards, if all are actors of other processes that live already; empty: the crew spawns them.
  std::vector<caf::actor> shards_elsewhere{};
  /// Called once by the constructor with the shards, when all workers have the memory that they begin with,
  /// and none has begun. Shards may still take theirs, on threads of their own; wait_until_prepared() waits
  /// for them. What it throws, the constructor throws.
  std::function<void(std::span<const caf::actor> shards)> on_prepared{};
  // The callbacks are called by actors until the last one has ended. They must not block.
  std::function<void(const training_progress&)> on_progress{};
  std::function<void(run_outcome)> on_end{};                ///< once
  std::function<void(const std::string& why)> on_failure{}; ///< before any worker hears of the failure
  std::function<void(const wait_reason&)> on_wait{};        ///< for each wait that an actor names
  book_keeper::teller on_books{}; ///< with the books so far, when they are asked for
  std::function<void(const checkpoint_account&)> on_checkpoint{}; ///< each time one is written, or has failed
  /// Tells when work on a GPU is done; null: that of the process.
  std::shared_ptr<event_watch> watch{};
  /// Gives the actor that a worker uses as shard: one that stands between both, or the shard itself.
  std::function<caf::actor(rank worker, std::uint32_t shard, const caf::actor& handle)> between{};
  /// Whether workers cut their batches themselves, from the samples of the plan. The feeder then has no
  /// memory of batches, of which it would search one for each of very many workers.
  bool workers_cut_batches = false;
  /// How often each of so many tells of its steps; null: as pace_for() says, for times of this machine.
  std::function<notice_pace(std::size_t tellers)> pace{};
  /// Gives what a worker adds its gradients up with, if the plan says that it does.
  std::function<std::shared_ptr<net::all_reduce>(rank worker)> sums{};
  /// Tells shards when a policy closes a batch, by `time`; null: the timer of this process, by the monotonic
  /// clock.
  std::shared_ptr<step_timer> timer{};
  /// Gives the runner that a worker uses instead of `own`, the one of the plan.
  std::function<std::shared_ptr<step_runner>(rank worker, std::shared_ptr<step_runner> own)> runner{};
};

/// The actors of a run, spawned as a plan says. Only this class wires them, on any system: with threads of
/// its own, in a test that steps through messages, or on a virtual clock.
///
/// Never   owns a thread, and never waits. The owner of the system must wait until no actor lives, before it
///         destroys what the callbacks refer to.
/// Threads coordinator() and store(): any; the rest: the owner's.
class run_crew {
public:
  /// Spawns the actors, the devices last; then the run has begun.
  ///
  /// Errors  std::invalid_argument, before any actor is spawned: no time source, a plan without the parts
  ///         that these roles use, or workers without the other three roles. graph_error, std::system_error:
  ///         a replica that cannot be built; actors that were spawned before are told to give up.
  run_crew(caf::actor_system& system, run_plan plan, run_crew_options options);

  /// Spawns a worker that joins the run in progress: a rank with which it did not begin, or one that has left
  /// or is lost and comes back under a higher incarnation. The coordinator gives it a slot as soon as it can,
  /// or tells it to give up.
  ///
  /// Errors  std::invalid_argument: the run is not elastic, or has no such rank; those of the constructor.
  void add_worker(rank worker, incarnation_number incarnation);

  /// Tells all actors to end, the recorder last.
  void give_up();

  /// The time before the first device was spawned.
  instant started() const noexcept { return started_; }
  /// The weights that workers share under hogwild; null if hogwild is not among the policies of the run.
  const hogwild_store* store() const noexcept { return store_.get(); }
  const caf::actor& feeder() const noexcept { return feeder_; }
  const caf::actor& tracker() const noexcept { return tracker_; }
  /// Null in a run that tests no weights before its end.
  const caf::actor& evaluator() const noexcept { return evaluator_; }
  const caf::actor& coordinator() const noexcept { return coordinator_; }
  const std::vector<caf::actor>& helpers() const noexcept { return helpers_; }
  /// Null but in a replay of a run in which workers came late or came back.
  const caf::actor& joining_workers() const noexcept { return joining_workers_; }
  const std::vector<caf::actor>& shards() const noexcept { return shards_; }
  /// By rank, the last that was spawned; null for a rank that was not.
  const std::vector<caf::actor>& devices() const noexcept { return devices_; }
  /// The stages of all workers that span several devices, by worker.
  const std::vector<caf::actor>& stages() const noexcept { return stages_; }

private:
  std::shared_ptr<trace_track> new_track(std::string name) const;
  /// How often each of so many tells of its share of the steps, so that lines and tests come in time.
  notice_pace pace_among(std::size_t workers) const;
  void spawn_all();
  void spawn_tracker();
  void spawn_evaluator();
  void share_block();
  void spawn_shards();
  caf::actor spawn_shard(std::uint32_t s);
  void spawn_feeder();
  void spawn_coordinator();
  void spawn_joining_workers();
  prepared_worker prepare_one(std::uint32_t worker, incarnation_number incarnation, bool late,
                              const caf::actor& coordinator) const;
  void begin_workers();

  caf::actor_system& system_;
  run_plan plan_;
  run_crew_options options_;
  std::shared_ptr<hogwild_store> store_;
  std::shared_ptr<gpu_block> on_gpu_; ///< the block that workers share, if that is on a GPU
  instant started_{0};
  std::vector<caf::actor> helpers_;
  std::vector<caf::actor> shards_;
  std::vector<caf::actor> devices_;
  std::vector<caf::actor> stages_;
  caf::actor joining_workers_; ///< of a replay; null if nobody came late
  caf::actor feeder_;
  caf::actor tracker_;
  caf::actor evaluator_;
  caf::actor coordinator_;
};

} // namespace mailgrad
