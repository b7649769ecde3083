#include <mailgrad/tests/actors/runs/assembled_run.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/plan/resume.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/tests/support/manual_time.hpp>

namespace mailgrad::testing {
using messaging::kill, messaging::on, messaging::send, messaging::spawn;

namespace {

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
             send(self_, shard_, join_shard{x.worker, x.incarnation, caf::actor_cast<caf::actor>(self_)});
           }),
        on(self_,
           [this](const push_gradient& x) {
             notes_->steps_pushed.push_back(x.header.id.step.value);
             send(self_, shard_, x);
           }),
        on(self_,
           [this](const shard_weights& x) {
             notes_->versions_read.push_back(x.header.version.value);
             notes_->epochs_read.push_back(x.header.epoch.value);
             if (on_weights_) on_weights_();
             send(self_, device_, x);
           }),
        on(self_, [this](const checkpoint_marker& x) { send(self_, shard_, x); }),
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

} // namespace

run_plan plan_of(const assembly& a, const std::shared_ptr<const data_split>& data) {
  training_options o;
  o.devices.clear();
  for (std::uint32_t r = 0; r < a.workers; ++r)
    for (std::uint32_t d = 0; d < a.devices_each; ++d)
      o.devices.push_back(a.parameters.size() == 1 ? device{device_kind::cuda, a.parameters[0].index, r}
                                                   : device{device_kind::cpu, d});
  if (!a.devices.empty()) o.devices = a.devices;
  o.parameters = a.parameters;
  o.workers = a.workers;
  o.slots = a.slots;
  o.waits_for_workers = a.waits_for_workers;
  o.micro_batches = a.micro_batches;
  o.policy = a.policy;
  o.cure = a.cure;
  o.optimizer = parse_optimizer(a.optimizer);
  o.optimizer.learning_rate = a.learning_rate;
  o.optimizer.clip_norm = a.clip_norm;
  o.local_steps = a.local_steps;
  if (a.outer_optimizer != "sgd") {
    o.outer = parse_optimizer(a.outer_optimizer);
    o.outer.learning_rate = 0.1;
  }
  o.batch = a.batch;
  o.steps = a.batches;
  o.shards = a.shards;
  o.seed = a.seed;
  o.sample_gap = a.sample_gap;
  o.trace_events = a.trace_events;
  o.replay = a.replayed;
  o.all_reduce = a.sums != nullptr;
  model_function model = a.model;
  if (a.devices_each > 1) model = a.replicated ? replicated(a.model) : pipelined(a.model);
  run_plan plan = plan_run(std::move(model), data, std::move(o));
  plan.options.run_ahead = a.run_ahead; // of those that can
  plan.options.resume = a.resume;
  if (a.checkpoint_writer) plan.options.checkpoints.folder = "of the writer";
  plan.options.checkpoints.every_steps = a.checkpoint_every;
  if (a.resume) plan_resume(plan);
  plan.sums_apart = a.sums_apart.value_or(plan.sums_apart);
  plan.update_helpers = a.helpers.value_or(plan.update_helpers);
  return plan;
}

assembled_run::assembled_run(caf::actor_system& system, const assembly& a,
                             const std::shared_ptr<const data_split>& data,
                             std::shared_ptr<const time_source> time)
    : system_(system), assembly_(a) {
  run_plan plan = plan_of(a, data);
  layout_ = plan.layout;
  run_crew_options options{std::move(time)};
  options.timer = std::make_shared<hasty_timer>();
  options.recorder = a.recorder;
  options.checkpoint_writer = a.checkpoint_writer;
  options.coordinator_has_thread = false;
  options.runner = a.runner;
  options.watch = a.watch;
  options.sums = a.sums;
  options.on_end = [this](run_outcome outcome) {
    std::lock_guard guard(mutex_);
    outcomes_.push_back(std::move(outcome));
    changed_.notify_all();
  };
  options.on_wait = [this](const wait_reason& w) {
    std::lock_guard guard(mutex_);
    waits_ += w.what + "\n";
  };
  if (a.overhear)
    options.between = [this](rank worker, std::uint32_t s, const caf::actor& shard) {
      return overhear(worker.value, s, shard);
    };
  crew_.emplace(system_, std::move(plan), std::move(options));
  devices = crew_->devices();
  stages = crew_->stages();
  helpers = crew_->helpers();
  shards = crew_->shards();
  feeder_actor = crew_->feeder();
  coordinator_actor = crew_->coordinator();
}

void assembled_run::add_worker(std::uint32_t worker, std::uint32_t incarnation) {
  if (worker < devices.size()) earlier_.push_back(devices[worker]);
  crew_->add_worker({worker}, {incarnation});
  devices = crew_->devices();
}

void assembled_run::kill_all() const {
  const tsan_annotations::inside_caf hidden;
  for (const auto* group : {&devices, &earlier_, &stages, &shards, &helpers, &spies_})
    for (const caf::actor& a : *group)
      if (a) kill(a);
  for (const caf::actor& a : {feeder_actor, crew_->tracker(), coordinator_actor}) kill(a);
  if (crew_->joining_workers()) kill(crew_->joining_workers());
}

assembled_run::~assembled_run() {
  const tsan_annotations::inside_caf hidden; // whoever lets go of a handle last deletes, and CAF knows who
  kill_all();
  for (auto* group : {&devices, &earlier_, &stages, &shards, &helpers, &spies_}) group->clear();
  for (caf::actor* a : {&feeder_actor, &coordinator_actor}) *a = nullptr;
  crew_.reset();
  notes_.clear(); // and what actors share with us
  layout_.reset();
}

caf::actor assembled_run::overhear(std::uint32_t worker, std::uint32_t s, const caf::actor& shard) {
  notes_.push_back(std::make_shared<exchange_notes>());
  std::function<void()> on_weights;
  if (assembly_.on_weights) on_weights = [this, worker, s] { assembly_.on_weights(worker, s); };
  spies_.push_back(spawn<eavesdropper>(system_, notes_.back(), shard, on_weights));
  return spies_.back();
}

} // namespace mailgrad::testing
