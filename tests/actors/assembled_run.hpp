#pragma once

#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>

#include <mailgrad/actors/run/coordinator.hpp>
#include <mailgrad/actors/run/feeder.hpp>
#include <mailgrad/actors/run/staleness_tracker.hpp>
#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/actors/shard/update_helper.hpp>
#include <mailgrad/actors/worker/device_actor.hpp>
#include <mailgrad/actors/worker/piece_actor.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/optim/policies/hogwild.hpp>
#include <mailgrad/optim/policies/policy.hpp>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
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

/// The actors of a run, wired as `training` wires them, on any actor system: a test can hold each of them.
class assembled_run {
public:
  assembled_run(caf::actor_system& system, const assembly& a, const std::shared_ptr<const data_split>& data,
                std::shared_ptr<const time_source> time)
      : system_(system), assembly_(a), policies_(parse_policy_schedule(a.policy, a.workers)),
        time_(std::move(time)) {
    request_.sample_dims = data->train.sample_dims();
    request_.classes = data->train.classes();
    request_.batch = a.batch;
    request_.workers = a.workers;
    layout_ = std::make_shared<parameter_layout>(lay_out(a.model, request_, a.shards));
    tracker_ = spawn<staleness_tracker>(system_, staleness_tracker_options{time_, {}});
    if (has_hogwild(policies_)) store_ = std::make_shared<hogwild_store>(first_values(*layout_, a.seed));
    spawn_shards();
    spawn_feeder(data);
    spawn_coordinator();
    for (std::uint32_t r = 0; r < a.workers; ++r) spawn_device(r);
  }
  ~assembled_run() {
    const hand_over::inside_caf hidden; // whoever lets go of a handle last deletes, and CAF knows who
    for (const auto* group : {&devices, &pieces, &shards, &hands, &spies_})
      for (const caf::actor& a : *group) kill(a);
    for (const caf::actor* a : {&feeder_actor, &tracker_, &coordinator_actor}) kill(*a);
    for (auto* group : {&devices, &pieces, &shards, &hands, &spies_}) group->clear();
    for (caf::actor* a : {&feeder_actor, &tracker_, &coordinator_actor}) *a = nullptr;
    notes_.clear(); // and what actors share with us
    layout_.reset();
    store_.reset();
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
    return store_ ? std::optional(store_->version()) : std::nullopt;
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
  std::shared_ptr<trace_track> new_track(std::string name) const {
    if (assembly_.trace_events == 0) return nullptr;
    return std::make_shared<trace_track>(std::move(name), assembly_.trace_events, instant{0});
  }
  void spawn_shards() {
    for (std::uint32_t h = 0; h < assembly_.hands; ++h) hands.push_back(spawn<update_helper>(system_));
    for (std::uint32_t s = assembly_.shards; s-- > 0;) {
      auto weights = std::make_shared<shard>(*layout_, s, assembly_.seed, shard_optimizer());
      const std::vector<caf::actor> followers = s == 0 ? shards : std::vector<caf::actor>();
      shards.insert(
          shards.begin(),
          spawn<parameter_actor>(
              system_, parameter_actor_options{std::move(weights), policies_.front().policy,
                                               assembly_.workers, tracker_, time_, followers, assembly_.cure,
                                               assembly_.recorder, assembly_.replayed, store_,
                                               new_track("shard " + std::to_string(s)), hands}));
    }
  }
  optimizer_options shard_optimizer() const {
    if (assembly_.local_steps > 0) return {.learning_rate = 1};
    optimizer_options rule = parse_optimizer(assembly_.optimizer);
    rule.learning_rate = assembly_.learning_rate;
    return adapted_optimizer(assembly_.cure, rule, assembly_.workers);
  }
  void spawn_feeder(const std::shared_ptr<const data_split>& data) {
    const deal_mode mode =
        keeps_in_step(policies_.front().policy) ? deal_mode::by_rank : deal_mode::on_demand;
    feeder_actor = spawn<feeder>(
        system_,
        feeder_options{std::shared_ptr<const dataset>(data, &data->train),
                       {data->train.size(), assembly_.batch, std::numeric_limits<std::uint32_t>::max(),
                        assembly_.batches, assembly_.seed, mode, assembly_.workers},
                       0,
                       assembly_.replayed ? std::deque<std::uint64_t>() : switch_steps(policies_),
                       assembly_.recorder,
                       assembly_.replayed,
                       time_,
                       new_track("feeder")});
  }
  void spawn_coordinator() {
    coordinator_options options;
    options.workers = assembly_.workers;
    options.shards = shards;
    options.feeder = feeder_actor;
    options.feeder_traced = assembly_.trace_events > 0;
    options.policies = policies_;
    if (is_automatic(assembly_.policy)) options.automatic = parse_auto(assembly_.policy);
    options.tracker = tracker_;
    options.time = time_;
    options.replayed = assembly_.replayed;
    options.recorder = assembly_.recorder;
    options.on_end = [this](run_outcome outcome) {
      std::lock_guard guard(mutex_);
      outcomes_.push_back(std::move(outcome));
      changed_.notify_all();
    };
    coordinator_actor = spawn<coordinator>(system_, std::move(options));
  }
  void spawn_device(std::uint32_t r) {
    device_actor_options options;
    options.worker = {r};
    model_request request = request_;
    request.worker = r;
    options.model = std::make_shared<replica>(assembly_.model, request, layout_of_workers());
    if (assembly_.local_steps > 0) {
      const auto cure = make_cure(assembly_.cure, {assembly_.workers});
      options.local = std::make_shared<local_steps>(
          layout_, local_steps_options{assembly_.local_steps, parse_optimizer(assembly_.optimizer),
                                       cure ? cure->pull() : std::nullopt});
    }
    if (assembly_.devices_each > 1) options.model = options.pieces = spanning_model({r});
    if (store_)
      options.writer =
          std::make_shared<hogwild_writer>(*layout_, store_, parse_optimizer(assembly_.optimizer));
    options.direct = policies_.front().policy == hogwild_policy::policy_name;
    for (std::uint32_t s = 0; s < assembly_.shards; ++s)
      options.shard_begins.push_back(layout_->shard(s).begin);
    options.shards = shards;
    if (assembly_.overhear) {
      for (std::uint32_t s = 0; s < assembly_.shards; ++s) {
        notes_.push_back(std::make_shared<exchange_notes>());
        std::function<void()> on_weights;
        if (assembly_.on_weights) on_weights = [this, r, s] { assembly_.on_weights(r, s); };
        options.shards[s] = spawn<eavesdropper>(system_, notes_.back(), options.shards[s], on_weights);
        spies_.push_back(options.shards[s]);
      }
    }
    options.feeder = feeder_actor;
    options.tracker = tracker_;
    options.coordinator = coordinator_actor;
    options.time = time_;
    options.sample_gap = assembly_.sample_gap;
    options.trace = new_track("worker " + std::to_string(r));
    devices.push_back(spawn<device_actor>(system_, std::move(options)));
  }

  /// Of weights of its own a worker has one block, however many shards there are.
  std::shared_ptr<const parameter_layout> layout_of_workers() const {
    if (assembly_.local_steps == 0) return layout_;
    return std::make_shared<parameter_layout>(lay_out(assembly_.model, request_, 1));
  }

  std::shared_ptr<spanning_replica> spanning_model(rank worker) {
    model_request request = request_;
    request.devices.clear();
    for (std::uint32_t d = 0; d < assembly_.devices_each; ++d)
      request.devices.push_back({device_kind::cpu, d});
    const std::shared_ptr<const parameter_layout> layout = layout_of_workers();
    spanning_replica::options span{worker, request.devices,     {}, assembly_.micro_batches, layout,
                                   {},     assembly_.sums_apart};
    for (std::size_t p = 0; p < request.devices.size(); ++p) {
      span.pieces.push_back(spawn<piece_actor>(
          system_,
          piece_actor_options{p, request.devices, host_stream{},
                              assembly_.replicated ? replicated(small_model()) : pipelined(small_model()),
                              request, layout, request.devices.size() + 1, time_, assembly_.sums_apart}));
      span.traces.push_back(new_track("piece " + std::to_string(p)));
    }
    pieces.insert(pieces.end(), span.pieces.begin(), span.pieces.end());
    return std::make_shared<spanning_replica>(std::move(span));
  }

  caf::actor_system& system_;
  assembly assembly_;
  std::vector<scheduled_policy> policies_;
  std::shared_ptr<const time_source> time_;
  model_request request_;
  std::shared_ptr<const parameter_layout> layout_;
  std::shared_ptr<hogwild_store> store_;
  caf::actor tracker_;
  std::vector<caf::actor> spies_;
  std::vector<std::shared_ptr<exchange_notes>> notes_; ///< by worker, then shard

  mutable std::mutex mutex_; ///< guards what the coordinator writes
  mutable std::condition_variable changed_;
  std::vector<run_outcome> outcomes_;
};

} // namespace mailgrad::testing
