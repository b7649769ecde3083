#include <mailgrad/actors/run/run_crew.hpp>

#include <mailgrad/actors/run/evaluator.hpp>
#include <mailgrad/actors/run/feeder.hpp>
#include <mailgrad/actors/run/staleness_tracker.hpp>
#include <mailgrad/actors/scheduler/wakeful_sharing.hpp>
#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/engine/plan/resume.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>

namespace mailgrad {

using messaging::drop_others, messaging::hold_others, messaging::send_anonymously, messaging::spawn,
    messaging::spawn_apart;

run_home::config::config(std::size_t threads) {
  register_messages(*this);
  set(caf_compat::option("scheduler.max-threads"), threads);
  share_work_awake(*this);
}

run_home::run_home(const std::vector<device>& devices) : config_(thread_count(devices)) {}

namespace {

/// Asks a shard for its books, which it tells as soon as it is made. Promises its last words if it ends
/// before, else no words.
class shard_question : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.shard-question";

  shard_question(caf::event_based_actor* self, caf::actor shard,
                 std::shared_ptr<std::promise<std::string>> end)
      : actor_part(self), shard_(std::move(shard)), end_(std::move(end)) {}

  caf::behavior make_behavior() {
    watch(shard_, shard_lost{});
    send(shard_, copy_books{});
    return {
        on([this](const shard_books&) { tell({}); }),
        on([this](const shard_lost& x) { tell(x.why.empty() ? "it has ended" : x.why); }),
    };
  }

private:
  void tell(const std::string& words) {
    end_->set_value(words);
    self_->quit();
  }

  caf::actor shard_;
  std::shared_ptr<std::promise<std::string>> end_;
};

/// All that is left of the exception that ended an actor are its words.
[[noreturn]] void refuse(std::size_t shard, const std::string& why) {
  if (why.find("out of memory: ") != std::string::npos) throw out_of_memory(why);
  throw std::runtime_error(fmt::format("shard {}: {}", shard, why));
}

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(fmt::format("run_crew: {}", what));
}

void require_crew(const run_plan& plan, const run_crew_options& options) {
  const crew_roles& r = options.roles;
  require(options.time != nullptr, "there is no time source");
  require(plan.layout != nullptr, "the plan has no layout; plan_run() makes a whole one");
  require(!plan.policies.empty(), "the plan has no policy");
  require(!r.feeder || plan.data, "there is a feeder, but no data");
  require(!r.workers || plan.model, "there are workers, but no model");
  require(!r.workers || (r.shards && r.feeder && r.coordinator),
          "workers need shards, a feeder and a coordinator beside them");
  require(options.shards_elsewhere.empty() || options.shards_elsewhere.size() == plan.options.shards,
          "there are handles of shards elsewhere, but not one for each");
  require(!r.coordinator || r.feeder, "a coordinator needs a feeder beside it");
  require(!r.workers || !plan.options.all_reduce || options.sums,
          "workers of one process have no sums of MPI; leave all_reduce out");
  if (plan.options.parameter_actor) require_spawnable(*plan.options.parameter_actor);
}

/// Whether a worker reads the weights of a shard on the GPU where they are: all its devices are there. Its
/// own weights, if it takes local steps, lie there only if those of all shards do.
bool reads_there(const run_plan& plan, std::uint32_t worker, std::uint32_t shard) {
  const training_options& o = plan.options;
  const std::vector<device> own = devices_of(o, worker);
  const auto is_there = [&](std::uint32_t s) {
    return std::ranges::all_of(own, [&](device d) { return is_same_gpu(d, place_of_shard(o, s)); });
  };
  if (o.local_steps == 0) return is_there(shard);
  for (std::uint32_t s = 0; s < o.shards; ++s)
    if (!is_there(s)) return false;
  return true;
}

/// Memory of the host from which shards on GPUs copy.
block_source pinned_blocks(const training_options& o) {
  const auto gpu = std::ranges::find(o.parameters, device_kind::cuda, &device::kind)->index;
  return [gpu](std::size_t bytes) {
    cuda::runtime::make_current(gpu); // it would else wake the first GPU
    return naming_memory("a gradient of a worker", [bytes] { return cuda::pinned_memory(bytes); });
  };
}

} // namespace

void wait_until_prepared(caf::actor_system& system, std::span<const caf::actor> shards) {
  std::vector<std::future<std::string>> answers;
  std::vector<caf::actor> questions; // an actor that nobody knows would end, and miss that its shard has
  for (const caf::actor& shard : shards) {
    const auto end = std::make_shared<std::promise<std::string>>();
    answers.push_back(end->get_future());
    questions.push_back(spawn<shard_question>(system, shard, end));
  }
  for (std::size_t s = 0; s < answers.size(); ++s)
    if (const std::string why = answers[s].get(); !why.empty()) refuse(s, why);
}

/// The coordinator may ask while its spawner still prepares other workers, and may yet be refused.
caf::behavior joining_workers::make_behavior() {
  hold_others(self_);
  return held();
}

caf::behavior joining_workers::held() {
  return {
      on([this](const go_on&) {
        drop_others(self_);
        self_->become(bringing());
      }),
      on([this](const give_up&) { self_->quit(); }),
  };
}

caf::behavior joining_workers::bringing() {
  return {
      on([this](const bring_worker& x) { bring(x); }),
      on([this](const give_up&) {
        for (const caf::actor& a : std::exchange(brought_, {})) send(a, give_up{});
        self_->quit();
      }),
  };
}

void joining_workers::bring(const bring_worker& x) {
  const caf::actor coordinator = sender();
  try {
    for (caf::actor& a : spawn_(x.worker, x.incarnation, coordinator)) brought_.push_back(std::move(a));
  } catch (const std::exception& e) {
    send(coordinator, worker_lost{x.worker, e.what(), x.incarnation});
  }
}

run_crew::run_crew(caf::actor_system& system, run_plan plan, run_crew_options options)
    : system_(system), plan_(std::move(plan)), options_(std::move(options)) {
  require_crew(plan_, options_);
  try {
    spawn_all();
  } catch (...) {
    give_up(); // actors that live already wait for the others
    throw;
  }
}

void run_crew::spawn_all() {
  spawn_tracker();
  if (plan_.shares_block()) share_block();
  if (options_.roles.shards && plan_.has_shards()) spawn_shards();
  if (options_.roles.feeder) spawn_feeder();
  if (plan_.tests_during_run()) spawn_evaluator();
  if (options_.roles.coordinator && plan_.options.replay && plan_.is_elastic()) spawn_joining_workers();
  if (options_.roles.coordinator) spawn_coordinator();
  if (coordinator_) send_anonymously(tracker_, stop_by{coordinator_});
  begin_workers();
}

/// Each takes its memory before the first one trains. The run has begun by then, as its lines of metrics say.
void run_crew::begin_workers() {
  started_ = options_.time->now();
  std::vector<prepared_worker> workers;
  for (std::uint32_t r = 0; options_.roles.workers && r < plan_.workers(); ++r) {
    workers.push_back(prepare_one(r, {}, false, coordinator_));
    stages_.insert(stages_.end(), workers.back().stages.begin(), workers.back().stages.end());
  }
  if (options_.on_prepared) options_.on_prepared(shards_);
  for (const prepared_worker& w : workers) devices_.push_back(w.begin());
  if (joining_workers_) send_anonymously(joining_workers_, go_on{}); // nothing is refused any more
}

void run_crew::give_up() {
  for (const auto& actors : {devices_,
                             stages_,
                             shards_,
                             helpers_,
                             {joining_workers_, evaluator_, coordinator_, feeder_, tracker_}})
    for (const caf::actor& a : actors)
      if (a) send_anonymously(a, mailgrad::give_up{});
  for (const caf::actor& a : {options_.recorder, options_.observer, options_.checkpoint_writer})
    if (a) send_anonymously(a, mailgrad::give_up{});
}

std::shared_ptr<trace_track> run_crew::new_track(std::string name) const {
  const std::size_t events = plan_.options.trace_events;
  if (events == 0) return nullptr;
  return std::make_shared<trace_track>(std::move(name), events, options_.created);
}

notice_pace run_crew::pace_among(std::size_t workers) const {
  if (options_.pace) return options_.pace(workers);
  const training_options& o = plan_.options;
  const std::array wanted{o.metrics_every, plan_.tests_during_run() ? o.evaluate_every : interval{}};
  return pace_for(wanted, plan_.steps_per_epoch(), workers);
}

void run_crew::spawn_tracker() {
  const training_options& o = plan_.options;
  staleness_tracker_options options{options_.time, options_.on_progress};
  options.scale = {plan_.steps_per_epoch(), base_learning_rate(o.optimizer), o.optimizer.schedule};
  options.lines = o.metrics_every;
  options.tests = o.evaluate_every;
  if (plan_.resumed) {
    options.done = plan_.resumed->done();
    options.elapsed = plan_.resumed->elapsed();
  }
  options.observer = options_.observer;
  options.enough = plan_.enough();
  tracker_ = spawn<staleness_tracker>(system_, std::move(options));
}

void run_crew::spawn_evaluator() {
  evaluator_options options{plan_.model, plan_.request, plan_.layout};
  options.samples = std::shared_ptr<const dataset>(plan_.data, &plan_.judged_by());
  options.held_out = plan_.data->validation.size() > 0;
  options.on_tested = options_.on_tested;
  options.shards = shards_;
  options.store = store_;
  options.time = options_.time;
  options.stop = options_.stop_tests;
  options.gpu = gpu_for_tests(plan_.options);
  evaluator_ = spawn_apart<mailgrad::evaluator>(system_, std::move(options));
  send_anonymously(tracker_, watch_tests{evaluator_});
}

/// On a GPU the shards bring their weights, and the store has none.
void run_crew::share_block() {
  if (has_shard_on_gpu(plan_.options)) {
    store_ = std::make_shared<hogwild_store>(std::span<const float>());
    on_gpu_ = std::make_shared<gpu_block>(plan_.layout->shard_count(), plan_.slots());
  } else {
    store_ = std::make_shared<hogwild_store>(
        plan_.first_weights ? *plan_.first_weights : first_weights(*plan_.layout, plan_.options.seed));
  }
  if (plan_.resumed)
    restore_block(*plan_.resumed->from, *store_,
                  plan_.has_shards() ? block_weights::in_shards : block_weights::all,
                  plan_.resumed->written());
}

/// Spawns the first shard last, because it leads the others under a policy that requires them to agree.
void run_crew::spawn_shards() {
  shards_ = options_.shards_elsewhere;
  if (!shards_.empty()) return;
  for (std::size_t h = 0; h < plan_.update_helpers; ++h) helpers_.push_back(spawn<update_helper>(system_));
  for (std::uint32_t s = plan_.options.shards; s-- > 0;) shards_.insert(shards_.begin(), spawn_shard(s));
}

caf::actor run_crew::spawn_shard(std::uint32_t s) {
  const training_options& o = plan_.options;
  parameter_actor_options with;
  with.tracker = tracker_;
  with.recorder = options_.recorder;
  with.time = options_.time;
  shard_memory at{.blocks = options_.blocks};
  if (s == 0) with.followers = shards_;
  with.helpers = helpers_;
  with.store = store_;
  with.on_gpu = on_gpu_;
  with.replayed = o.replay;
  with.trace = new_track(fmt::format("shard {}", s));
  with.pace = pace_among(1); // each shard sees the gradients of all workers
  if (const device place = place_of_shard(o, s); place.kind == device_kind::cuda) {
    at.gpu = place;
    for (std::uint32_t r = 0; r < plan_.slots(); ++r) with.elsewhere.push_back(!reads_there(plan_, r, s));
  }
  with.watch = options_.watch;
  with.timer = options_.timer;
  if (options_.awaits)
    with.awaits = [tell = options_.awaits, s](std::optional<rank> first, version_number version) {
      tell(s, first, version);
    };
  return mailgrad::spawn_shard(
      system_,
      terms_of(plan_, shard_index{s}, {options_.recorder != nullptr, options_.checkpoint_writer != nullptr}),
      std::move(with), std::move(at), o.parameter_actor.get());
}

void run_crew::spawn_feeder() {
  const auto& data = plan_.data;
  feeder_ = spawn<mailgrad::feeder>(
      system_,
      feeder_options{std::shared_ptr<const dataset>(data, &data->train), plan_.deal, plan_.request.nonzeros,
                     plan_.holds, options_.recorder, plan_.options.replay, options_.time, new_track("feeder"),
                     plan_.resumed ? std::optional(plan_.resumed->position) : std::nullopt,
                     plan_.options.local_steps + 2});
}

void run_crew::spawn_coordinator() {
  coordinator_options options;
  options.workers = plan_.workers();
  options.slots = plan_.slots();
  options.elastic = plan_.is_elastic();
  options.local_steps = plan_.options.local_steps;
  options.needs_all = plan_.options.all_reduce;
  if (plan_.options.when_diverged == on_divergence::end)
    options.divergence = {plan_.data ? chance_loss(plan_.data->train) : 0, plan_.workers()};
  options.waits_for_workers = instant{plan_.options.waits_for_workers};
  options.joining_workers = joining_workers_;
  options.policies = plan_.policies;
  options.automatic = plan_.automatic;
  options.tracker = tracker_;
  options.time = options_.time;
  options.shards = shards_;
  options.feeder = feeder_;
  options.feeder_traced = plan_.options.trace_events > 0;
  options.timelines = reported_timelines(options_.created, plan_.options.trace_events);
  options.replayed = plan_.options.replay;
  options.recorder = options_.recorder;
  options.observer = options_.observer;
  options.on_end = options_.on_end;
  options.on_failure = options_.on_failure;
  options.on_wait = options_.on_wait;
  options.on_checkpoint = options_.on_checkpoint;
  options.on_books = options_.on_books;
  options.shards_tell_books = !plan_.options.parameter_actor;
  options.shares_credit = options_.shares_credit;
  if (plan_.resumed) {
    options.resumed = plan_.resumed->schedule;
    options.steps_before = plan_.resumed->steps_before();
    if (plan_.resumed->same_workers) options.books = plan_.resumed->books();
    options.lost_before = plan_.resumed->lost();
  }
  if (options_.checkpoint_writer)
    options.checkpoints = {options_.checkpoint_writer, card_of(plan_), plan_.options.checkpoints.every_steps,
                           plan_.options.checkpoints.every.count(), plan_.options.trace_events > 0};
  options.checkpoints.block = store_;
  if (plan_.resumed)
    options.checkpoints.named = steps_named_in(plan_.options.checkpoints.folder, plan_.resumed->from->path());
  if (options_.checkpoint_writer) options.checkpoints.recorder = options_.recorder;
  if (const early_stop enough = plan_.enough(); enough.counts_tests())
    options.checkpoints.tests = enough.tests();
  coordinator_ = options_.coordinator_has_thread
                     ? spawn_apart<mailgrad::coordinator>(system_, std::move(options))
                     : spawn<mailgrad::coordinator>(system_, std::move(options));
}

void run_crew::add_worker(rank worker, incarnation_number incarnation) {
  require(plan_.is_elastic(), "no worker may join this run; see run_plan::is_elastic()");
  require(worker.value < plan_.slots(), "the run has no slot for this rank");
  const prepared_worker made = prepare_one(worker.value, incarnation, true, coordinator_);
  stages_.insert(stages_.end(), made.stages.begin(), made.stages.end());
  if (devices_.size() <= worker.value) devices_.resize(worker.value + 1);
  devices_[worker.value] = made.begin();
}

/// The crew outlives its actors.
void run_crew::spawn_joining_workers() {
  joining_workers_ = spawn<mailgrad::joining_workers>(
      system_, [this](rank worker, incarnation_number incarnation, const caf::actor& coordinator) {
        prepared_worker made = prepare_one(worker.value, incarnation, true, coordinator);
        made.stages.push_back(made.begin());
        return std::move(made.stages);
      });
}

prepared_worker run_crew::prepare_one(std::uint32_t worker, incarnation_number incarnation, bool late,
                                      const caf::actor& coordinator) const {
  worker_surroundings with{
      plan_.model, {shards_, feeder_, tracker_, coordinator}, options_.time, options_.created};
  for (std::uint32_t s = 0; options_.between && s < shards_.size(); ++s)
    with.peers.shards[s] = options_.between({worker}, s, shards_[s]);
  if (store_)
    with.shared =
        shared_block{store_, on_gpu_, plan_.options.optimizer, !plan_.first_policy().traits().needs_shards};
  with.runner = options_.runner;
  with.watch = options_.watch;
  for (std::uint32_t s = 0; s < plan_.layout->shard_count(); ++s)
    with.weights.push_back(reads_there(plan_, worker, s) ? weight_place::same_gpu : weight_place::host);
  if (has_shard_on_gpu(plan_.options)) with.blocks = pinned_blocks(plan_.options);
  with.run_ahead = steps_ahead(plan_.options, plan_.policies);
  with.batch_sizes = plan_.batch_sizes();
  with.pace = pace_among(plan_.workers());
  if (options_.workers_cut_batches)
    with.samples = std::shared_ptr<const dataset>(plan_.data, &plan_.data->train);
  if (plan_.options.all_reduce) with.sums = options_.sums({worker});
  return prepare_worker(system_, terms_of(plan_, {worker}, incarnation, late), std::move(with));
}

} // namespace mailgrad
