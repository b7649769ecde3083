#include <mailgrad/actors/run/run_actors.hpp>

#include <mailgrad/actors/run/checked_options.hpp>
#include <mailgrad/actors/run/feeder.hpp>
#include <mailgrad/actors/run/staleness_tracker.hpp>
#include <mailgrad/actors/scheduler/wakeful_sharing.hpp>
#include <mailgrad/actors/shard/own_parameter_actor.hpp>
#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/actors/shard/update_helper.hpp>
#include <mailgrad/actors/worker/device_actor.hpp>
#include <mailgrad/actors/worker/piece_actor.hpp>
#include <mailgrad/engine/worker/worker_devices.hpp>
#include <mailgrad/optim/cures/cure.hpp>
#include <mailgrad/optim/policies/hogwild.hpp>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace mailgrad {

namespace {

/// One CPU device is one thread, however many workers it is named for.
std::size_t thread_count(const std::vector<device>& devices) {
  std::set<std::uint32_t> cores;
  for (const device d : devices)
    if (d.kind == device_kind::cpu) cores.insert(d.index);
  return std::max<std::size_t>(1, cores.size());
}

} // namespace

run_actors::config::config(std::size_t threads) {
  configure<caf::id_block::mailgrad>(*this);
  set(option("scheduler.max-threads"), threads);
  share_work_awake(*this);
}

run_actors::run_actors(const std::vector<device>& devices) : config_(thread_count(devices)) {}

void run_actors::start(run_actors_options options) {
  options_ = std::move(options);
  try {
    spawn_tracker();
    spawn_shards();
    spawn_feeder();
    spawn_coordinator();
    started_ = options_.time->now();
    spawn_devices();
  } catch (...) {
    give_up(); // whoever lives already waits for the others
    throw;
  }
}

void run_actors::give_up() {
  for (const auto& actors : {devices_, pieces_, shards_, hands_, {coordinator_, feeder_, tracker_}})
    for (const caf::actor& a : actors)
      if (a) send_anonymously(a, mailgrad::give_up{});
  if (options_.recorder) send_anonymously(options_.recorder, mailgrad::give_up{});
  home_.wait();
}

std::uint32_t run_actors::workers() const { return workers_of(options_.run); }

std::shared_ptr<trace_track> run_actors::new_track(std::string name) const {
  if (options_.run.trace_events == 0) return nullptr;
  return std::make_shared<trace_track>(std::move(name), options_.run.trace_events, options_.created);
}

void run_actors::spawn_tracker() {
  tracker_ = spawn<staleness_tracker>(home_.system(),
                                      staleness_tracker_options{options_.time, options_.on_progress});
}

void run_actors::share_block() {
  const parameter_layout& layout = *options_.layout;
  std::vector<float> initial(layout.size());
  for (std::size_t s = 0; s < layout.shard_count(); ++s)
    layout.initialise_shard(s, options_.run.seed,
                            std::span(initial).subspan(layout.shard(s).begin, layout.shard(s).size()));
  store_ = std::make_shared<hogwild_store>(initial);
}

/// The first shard last: it leads the others where the policy wants them to agree.
void run_actors::spawn_shards() {
  if (has_hogwild(options_.policies)) {
    share_block();
    if (options_.policies.size() == 1) return; // hogwild from beginning to end
  }
  const training_options& run = options_.run;
  for (std::size_t t = 1; t < thread_count(run.devices); ++t)
    hands_.push_back(spawn<update_helper>(home_.system()));
  for (std::uint32_t s = run.shards; s-- > 0;) {
    auto weights = std::make_shared<shard>(*options_.layout, s, run.seed, shard_optimizer(run));
    const std::vector<caf::actor> followers = s == 0 ? shards_ : std::vector<caf::actor>();
    parameter_actor_options duties{std::move(weights), first_policy(),    workers(),
                                   tracker_,           options_.time,     followers,
                                   run.cure,           options_.recorder, run.replay};
    duties.store = store_;
    duties.trace = new_track("shard " + std::to_string(s));
    duties.hands = hands_;
    const auto& own = run.parameter_actor;
    shards_.insert(shards_.begin(), own ? own->spawn(home_.system(), std::move(duties))
                                        : spawn<parameter_actor>(home_.system(), std::move(duties)));
  }
}

void run_actors::spawn_feeder() {
  const auto& data = options_.data;
  const auto& replay = options_.run.replay;
  const dealer_options deal = deal_of(options_.run, *data, first_policy());
  total_steps_ = dealer(deal).batches();
  const std::shared_ptr<const dataset> samples(data, &data->train);
  feeder_ = spawn<mailgrad::feeder>(
      home_.system(), feeder_options{samples, deal, options_.request.nonzeros,
                                     replay ? std::deque<std::uint64_t>() : switch_steps(options_.policies),
                                     options_.recorder, replay, options_.time, new_track("feeder")});
  if (!replay) return;
  total_steps_ = 0;
  for (const auto& dealt : replay->batches) total_steps_ += dealt.size();
}

void run_actors::spawn_coordinator() {
  const training_options& run = options_.run;
  coordinator_options options;
  options.workers = workers();
  options.policies = options_.policies;
  if (is_automatic(run.policy) && !run.replay) options.automatic = parse_auto(run.policy);
  options.tracker = tracker_;
  options.time = options_.time;
  options.shards = shards_;
  options.feeder = feeder_;
  options.feeder_traced = run.trace_events > 0;
  options.replayed = run.replay;
  options.recorder = options_.recorder;
  options.on_end = options_.on_end;
  options.on_wait = options_.on_wait;
  // On a thread of its own: it answers whoever asks from outside while every other thread computes a step.
  coordinator_ = spawn<mailgrad::coordinator, caf::detached>(home_.system(), std::move(options));
}

void run_actors::spawn_devices() {
  const training_options& run = options_.run;
  const parameter_layout& layout = *options_.layout;
  const auto cure = make_cure(run.cure, {workers()});
  for (std::uint32_t r = 0; r < workers(); ++r) {
    device_actor_options options;
    options.worker = {r};
    give_model(options);
    if (run.local_steps > 0)
      options.local = std::make_shared<local_steps>(
          options_.layout,
          local_steps_options{run.local_steps, run.optimizer, cure ? cure->pull() : std::nullopt});
    options.shards = shards_;
    if (store_) options.writer = std::make_shared<hogwild_writer>(layout, store_, run.optimizer);
    options.direct = first_policy() == hogwild_policy::policy_name;
    for (std::size_t s = 0; s < layout.shard_count(); ++s)
      options.shard_begins.push_back(layout.shard(s).begin);
    options.clip_norm = run.optimizer.clip_norm;
    options.feeder = feeder_;
    options.tracker = tracker_;
    options.coordinator = coordinator_;
    options.time = options_.time;
    options.sample_gap = run.sample_gap;
    options.trace = new_track("worker " + std::to_string(r) +
                              (options.pieces ? "" : " on " + to_string(devices_of(run, r).front())));
    devices_.push_back(spawn<device_actor>(home_.system(), std::move(options)));
  }
}

/// On its own device, or in pieces, each with an actor.
void run_actors::give_model(device_actor_options& options) {
  const std::uint32_t worker = options.worker.value;
  const model_request request = request_of(worker, options_.request, options_.run);
  const auto layout = replica_layout();
  if (request.devices.size() == 1) {
    options.model = std::make_shared<replica>(options_.model, request, layout);
    return;
  }
  spanning_replica::options span{options.worker, request.devices, {}, options_.run.micro_batches, layout, {},
                                 sums_apart()};
  for (std::size_t p = 0; p < request.devices.size(); ++p) {
    span.pieces.push_back(spawn<piece_actor>(
        home_.system(),
        piece_actor_options{p, request.devices, host_stream{}, options_.model, request, layout,
                            request.devices.size() + 1, options_.time, span.sums_apart}));
    span.traces.push_back(
        new_track("worker " + std::to_string(worker) + ", piece on " + to_string(request.devices[p])));
  }
  pieces_.insert(pieces_.end(), span.pieces.begin(), span.pieces.end());
  options.model = options.pieces = std::make_shared<spanning_replica>(std::move(span));
}

/// Shards add up what several devices computed. Whoever else computes with a gradient (a cure, hogwild, local steps, the
/// norm of it, an actor that a user wrote) gets it whole. That shows in the bits, so all of it is among facts_of().
bool run_actors::sums_apart() const {
  const training_options& run = options_.run;
  return !store_ && run.local_steps == 0 && run.optimizer.clip_norm == 0 && !run.parameter_actor &&
         !make_cure(run.cure, {workers()});
}

/// A worker with weights of its own has them in one piece.
std::shared_ptr<const parameter_layout> run_actors::replica_layout() const {
  if (options_.run.local_steps == 0) return options_.layout;
  return std::make_shared<parameter_layout>(lay_out(options_.model, options_.request, 1));
}

model_request request_of(std::uint32_t worker, model_request request, const training_options& o) {
  request.worker = worker;
  request.devices = devices_of(o, worker);
  return request;
}

} // namespace mailgrad
