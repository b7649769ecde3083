#pragma once

#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>

#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::testing {

/// The messages that one worker and one shard exchanged.
struct exchange_notes {
  std::vector<std::uint64_t> versions_read; ///< in the order in which the worker got them
  std::vector<std::uint64_t> epochs_read;   ///< the policy epoch of each of these versions
  std::vector<std::uint64_t> steps_pushed;
  bool left = false; ///< whether the worker has left
};

struct assembly {
  std::string policy = "async";
  model_function model = small_model();
  std::uint32_t workers = 3;
  std::uint32_t slots = 0; ///< 0: as many as workers
  std::chrono::nanoseconds waits_for_workers{0};
  std::uint32_t shards = 2;
  std::size_t batch = 4;
  std::uint64_t batches = 12;
  std::string optimizer = "momentum";
  std::optional<double> learning_rate{};
  std::string cure = "none";
  /// If there are any, the optimiser is the workers', and the shards average models.
  std::uint64_t local_steps = 0;
  std::string outer_optimizer = "sgd"; ///< of the shards then; another than sgd has a learning rate of 0.1
  std::uint64_t seed = 1;
  std::size_t trace_events = 0;
  std::uint64_t sample_gap = 0;
  std::uint32_t devices_each = 1; ///< devices of a worker; if several, its model is a pipeline over them
  std::size_t micro_batches = 1;
  bool replicated = false; ///< whether such a worker instead computes a part of its batch on each device
  std::optional<bool> sums_apart{}; ///< whether the shards add up these gradients; none: as the plan says
  std::optional<std::uint32_t> helpers{}; ///< actors that help with updates; none: as the plan says
  bool overhear = false; ///< whether an eavesdropper forwards all messages between workers and shards
  caf::actor recorder{}; ///< the actor that gets the order of gradients and of batches
  std::shared_ptr<const recording> replayed{}; ///< the run to repeat
  caf::actor checkpoint_writer{};              ///< the actor that gets the checkpoints
  std::uint64_t checkpoint_every = 0;          ///< batches; 0: none is due by itself
  std::shared_ptr<const checkpoint> resume{};  ///< to go on from
  /// Where the weights lie. If it is one GPU, each worker is on a stream of it.
  std::vector<device> parameters{};
  std::vector<device> devices{};                           ///< of the workers; empty: as that says
  std::optional<std::uint64_t> run_ahead = most_run_ahead; ///< of these workers
  std::shared_ptr<event_watch> watch{};                    ///< of that GPU
  double clip_norm = 0;
  /// Makes the runner that a worker uses in place of its own, which is the second argument.
  std::function<std::shared_ptr<step_runner>(rank, std::shared_ptr<step_runner>)> runner{};
  /// Gives what a worker adds its gradients up with; null: each gradient goes to the shards by itself.
  std::function<std::shared_ptr<net::all_reduce>(rank)> sums{};
  /// The eavesdropper between this worker and this shard calls it when it forwards weights.
  std::function<void(std::uint32_t worker, std::uint32_t shard)> on_weights{};
};

/// A runner that has another one compute. A test changes what it wants of it.
class forwarding_runner : public step_runner {
public:
  explicit forwarding_runner(std::shared_ptr<step_runner> own) : own_(std::move(own)) {}

  std::shared_ptr<gradient> make_gradient() const override { return own_->make_gradient(); }
  void on_end(std::function<void()> notice) override { own_->on_end(std::move(notice)); }
  void use_weights(std::uint32_t shard, const snapshot& values) override { own_->use_weights(shard, values); }
  void use_host_weights(std::uint32_t shard, const float* values,
                        std::shared_ptr<const void> owner) override {
    own_->use_host_weights(shard, values, std::move(owner));
  }
  std::size_t most_under_way() const noexcept override { return own_->most_under_way(); }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override {
    return own_->begin_step(std::move(inputs), std::move(out));
  }
  float end_step() override { return own_->end_step(); }
  std::optional<device_span> span() const override { return own_->span(); }
  step_state give_up() override { return own_->give_up(); }

private:
  std::shared_ptr<step_runner> own_;
};

/// The plan that `training` would make for such a run.
run_plan plan_of(const assembly& a, const std::shared_ptr<const data_split>& data);

/// The actors of a run on any actor system. A test has a handle to each of them.
class assembled_run {
public:
  assembled_run(caf::actor_system& system, const assembly& a, const std::shared_ptr<const data_split>& data,
                std::shared_ptr<const time_source> time);
  ~assembled_run();
  /// Spawns a worker that joins in mid-run, or comes back. It takes its place in `devices`.
  void add_worker(std::uint32_t worker, std::uint32_t incarnation);
  /// Ends every actor as a crash would. On a system with threads the caller must then wait until no actor
  /// lives. Otherwise two threads could release a handle at the same time.
  void kill_all() const;
  /// How often the coordinator has reported the end of the run.
  std::size_t times_ended() const {
    std::lock_guard guard(mutex_);
    return outcomes_.size();
  }
  /// The outcome of the run. On a system with threads, this waits for the end.
  const run_outcome& outcome() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !outcomes_.empty(); });
    return outcomes_.front();
  }
  const parameter_layout& layout() const { return *layout_; }
  /// What actors have said that they wait for, since they were asked by `list_wait_reasons`.
  std::string waits() const {
    std::lock_guard guard(mutex_);
    return waits_;
  }
  /// The number of updates of the shared block, if hogwild is among the policies.
  std::optional<std::uint64_t> written() const {
    return crew_->store() ? std::optional(crew_->store()->version()) : std::nullopt;
  }
  /// The weights in that block.
  std::vector<float> block() const {
    std::vector<float> flat(crew_->store()->size());
    crew_->store()->load(0, flat);
    return flat;
  }
  /// The weights at the end: of all shards, or in that block if there are none.
  std::vector<float> weights() const {
    if (outcome().shards.empty()) return block();
    std::vector<float> flat;
    for (const shard_report& s : outcome().shards)
      std::ranges::copy(s.values.on_host(), std::back_inserter(flat));
    return flat;
  }
  const exchange_notes& notes(std::uint32_t worker, std::uint32_t shard) const {
    return *notes_[worker * assembly_.shards + shard];
  }
  std::vector<const exchange_notes*> notes_of_shard(std::uint32_t shard) const {
    std::vector<const exchange_notes*> of_workers;
    for (std::uint32_t r = 0; r < assembly_.workers; ++r) of_workers.push_back(&notes(r, shard));
    return of_workers;
  }

  std::vector<caf::actor> devices; ///< by rank, the latest incarnation; null: none has come
  std::vector<caf::actor> stages;  ///< of all workers, in the order of workers and then of stages
  std::vector<caf::actor> helpers;
  std::vector<caf::actor> shards;
  caf::actor feeder_actor;
  caf::actor coordinator_actor;

private:
  caf::actor overhear(std::uint32_t worker, std::uint32_t s, const caf::actor& shard);

  caf::actor_system& system_;
  assembly assembly_;
  std::shared_ptr<const parameter_layout> layout_;
  std::vector<caf::actor> spies_;
  std::vector<caf::actor> earlier_;                    ///< devices whose place others have taken
  std::vector<std::shared_ptr<exchange_notes>> notes_; ///< by worker, then shard

  mutable std::mutex mutex_; ///< guards what the coordinator writes
  mutable std::condition_variable changed_;
  std::vector<run_outcome> outcomes_;
  std::string waits_;
  std::optional<run_crew> crew_;
};

} // namespace mailgrad::testing
