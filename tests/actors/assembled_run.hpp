#pragma once

#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>

#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/engine/run_plan.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>

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

/// What passed between one worker and one shard.
struct exchange_notes {
  std::vector<std::uint64_t> versions_read; ///< as the worker got them
  std::vector<std::uint64_t> epochs_read;   ///< of those versions
  std::vector<std::uint64_t> steps_pushed;
  bool left = false; ///< the worker takes no further part
};

/// Stands between a worker and a shard, hands everything on, and takes notes.
class eavesdropper {
public:
  static constexpr const char* name = "mailgrad.eavesdropper";

  eavesdropper(caf::event_based_actor* self, std::shared_ptr<exchange_notes> notes, caf::actor shard,
               std::function<void()> on_weights)
      : self_(self), notes_(std::move(notes)), shard_(std::move(shard)), on_weights_(std::move(on_weights)) {}

  caf::behavior make_behavior() {
    return {
        on(self_,
           [this](const join_shard& x) {
             device_ = x.device;
             send(self_, shard_, join_shard{x.worker, caf::actor_cast<caf::actor>(self_)});
           }),
        on(self_,
           [this](const push_gradient& x) {
             notes_->steps_pushed.push_back(x.step);
             send(self_, shard_, x);
           }),
        on(self_,
           [this](const shard_weights& x) {
             notes_->versions_read.push_back(x.version);
             notes_->epochs_read.push_back(x.epoch);
             if (on_weights_) on_weights_();
             send(self_, device_, x);
           }),
        on(self_,
           [this](const worker_left& x) {
             notes_->left = true;
             send(self_, shard_, x);
           }),
    };
  }

private:
  caf::event_based_actor* self_;
  std::shared_ptr<exchange_notes> notes_;
  caf::actor shard_;
  std::function<void()> on_weights_;
  caf::actor device_;
};

struct assembly {
  std::string policy = "async";
  model_function model = small_model();
  std::uint32_t workers = 3;
  std::uint32_t shards = 2;
  std::size_t batch = 4;
  std::uint64_t batches = 12;
  std::string optimizer = "momentum";
  std::optional<double> learning_rate{};
  std::string cure = "none";
  std::uint64_t local_steps = 0; ///< then the optimiser is the workers', and the shards average
  std::uint64_t seed = 1;
  std::size_t trace_events = 0;
  std::uint64_t sample_gap = 0;
  std::uint32_t devices_each = 1; ///< of a worker; more than one: a pipeline over them
  std::size_t micro_batches = 1;
  bool replicated = false; ///< such a worker computes each part of its batch on another device
  bool sums_apart = false; ///< and the shards add up what they compute
  std::uint32_t hands = 0; ///< that help with updates
  bool overhear = false;   ///< put an eavesdropper on every line between worker and shard
  caf::actor recorder{};   ///< gets the order of gradients and of batches
  std::shared_ptr<const recording> replayed{}; ///< the run to repeat
  /// Called by the eavesdropper on that line when weights come by.
  std::function<void(std::uint32_t worker, std::uint32_t shard)> on_weights;
};

/// The plan of such a run, as `training` would make it.
inline run_plan plan_of(const assembly& a, const std::shared_ptr<const data_split>& data) {
  training_options o;
  o.devices.clear();
  for (std::uint32_t r = 0; r < a.workers; ++r)
    for (std::uint32_t d = 0; d < a.devices_each; ++d) o.devices.push_back({device_kind::cpu, d});
  o.workers = a.workers;
  o.micro_batches = a.micro_batches;
  o.policy = a.policy;
  o.cure = a.cure;
  o.optimizer = parse_optimizer(a.optimizer);
  o.optimizer.learning_rate = a.learning_rate;
  o.local_steps = a.local_steps;
  o.batch = a.batch;
  o.steps = a.batches;
  o.shards = a.shards;
  o.seed = a.seed;
  o.sample_gap = a.sample_gap;
  o.trace_events = a.trace_events;
  o.replay = a.replayed;
  model_function model = a.model;
  if (a.devices_each > 1) model = a.replicated ? replicated(small_model()) : pipelined(small_model());
  run_plan plan = plan_run(std::move(model), data, std::move(o));
  plan.sums_apart = a.sums_apart;
  plan.update_helpers = a.hands;
  return plan;
}

/// The actors of a run, on any actor system: a test can hold each of them.
class assembled_run {
public:
  assembled_run(caf::actor_system& system, const assembly& a, const std::shared_ptr<const data_split>& data,
                std::shared_ptr<const time_source> time)
      : system_(system), assembly_(a) {
    run_plan plan = plan_of(a, data);
    layout_ = plan.layout;
    run_crew_options options{std::move(time)};
    options.recorder = a.recorder;
    options.coordinator_has_thread = false;
    options.on_end = [this](run_outcome outcome) {
      std::lock_guard guard(mutex_);
      outcomes_.push_back(std::move(outcome));
      changed_.notify_all();
    };
    if (a.overhear)
      options.between = [this](rank worker, std::uint32_t s, const caf::actor& shard) {
        return overhear(worker.value, s, shard);
      };
    crew_.emplace(system_, std::move(plan), std::move(options));
    devices = crew_->devices();
    pieces = crew_->pieces();
    hands = crew_->helpers();
    shards = crew_->shards();
    feeder_actor = crew_->feeder();
    coordinator_actor = crew_->coordinator();
  }
  ~assembled_run() {
    const hand_over::inside_caf hidden; // whoever lets go of a handle last deletes, and CAF knows who
    const caf::actor tracker = crew_->tracker();
    for (const auto* group : {&devices, &pieces, &shards, &hands, &spies_})
      for (const caf::actor& a : *group) kill(a);
    for (const caf::actor& a : {feeder_actor, tracker, coordinator_actor}) kill(a);
    for (auto* group : {&devices, &pieces, &shards, &hands, &spies_}) group->clear();
    for (caf::actor* a : {&feeder_actor, &coordinator_actor}) *a = nullptr;
    crew_.reset();
    notes_.clear(); // and what actors share with us
    layout_.reset();
  }
  assembled_run(const assembled_run&) = delete;
  assembled_run& operator=(const assembled_run&) = delete;

  /// How often the coordinator told the end.
  std::size_t times_ended() const {
    std::lock_guard guard(mutex_);
    return outcomes_.size();
  }
  /// Waits for the end where actors have threads of their own.
  const run_outcome& outcome() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !outcomes_.empty(); });
    return outcomes_.front();
  }
  const parameter_layout& layout() const { return *layout_; }
  /// Updates of the shared block, if hogwild is among the policies.
  std::optional<std::uint64_t> written() const {
    return crew_->store() ? std::optional(crew_->store()->version()) : std::nullopt;
  }

  /// The weights of all shards at the end.
  std::vector<float> weights() const {
    std::vector<float> flat;
    for (const shard_report& s : outcome().shards)
      std::ranges::copy(s.values->as<float>(), std::back_inserter(flat));
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

  std::vector<caf::actor> devices;
  std::vector<caf::actor> pieces; ///< of all workers, each with its own one behind the other
  std::vector<caf::actor> hands;
  std::vector<caf::actor> shards;
  caf::actor feeder_actor;
  caf::actor coordinator_actor;

private:
  caf::actor overhear(std::uint32_t worker, std::uint32_t s, const caf::actor& shard) {
    notes_.push_back(std::make_shared<exchange_notes>());
    std::function<void()> on_weights;
    if (assembly_.on_weights) on_weights = [this, worker, s] { assembly_.on_weights(worker, s); };
    spies_.push_back(spawn<eavesdropper>(system_, notes_.back(), shard, on_weights));
    return spies_.back();
  }

  caf::actor_system& system_;
  assembly assembly_;
  std::shared_ptr<const parameter_layout> layout_;
  std::vector<caf::actor> spies_;
  std::vector<std::shared_ptr<exchange_notes>> notes_; ///< by worker, then shard

  mutable std::mutex mutex_; ///< guards what the coordinator writes
  mutable std::condition_variable changed_;
  std::vector<run_outcome> outcomes_;
  std::optional<run_crew> crew_;
};

} // namespace mailgrad::testing
