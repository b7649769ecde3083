#include <mailgrad/actors/training.hpp>

#include <mailgrad/actors/checked_options.hpp>
#include <mailgrad/actors/coordinator.hpp>
#include <mailgrad/actors/data_request.hpp>
#include <mailgrad/actors/device_actor.hpp>
#include <mailgrad/actors/evaluation.hpp>
#include <mailgrad/actors/feeder.hpp>
#include <mailgrad/actors/own_parameter_actor.hpp>
#include <mailgrad/actors/parameter_actor.hpp>
#include <mailgrad/actors/piece_actor.hpp>
#include <mailgrad/actors/run_books.hpp>
#include <mailgrad/actors/run_facts.hpp>
#include <mailgrad/actors/run_recorder.hpp>
#include <mailgrad/actors/sha256.hpp>
#include <mailgrad/actors/staleness_tracker.hpp>
#include <mailgrad/actors/worker_devices.hpp>
#include <mailgrad/optim/cures/cure.hpp>
#include <mailgrad/optim/policies/hogwild.hpp>
#include <mailgrad/optim/policies/policy.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

struct actor_config : caf::actor_system_config {
  explicit actor_config(std::size_t threads) {
    configure<caf::id_block::mailgrad>(*this);
    set(option("scheduler.max-threads"), threads);
    share_work(*this);
  }
};

/// One CPU device is one thread, however many workers it is named for.
std::size_t thread_count(const std::vector<device>& devices) {
  std::set<std::uint32_t> cores;
  for (const device d : devices)
    if (d.kind == device_kind::cpu) cores.insert(d.index);
  return std::max<std::size_t>(1, cores.size());
}

} // namespace

class training::implementation {
public:
  implementation(model_function model, std::shared_ptr<const data_split> data, training_options options,
                 std::shared_ptr<const time_source> time);
  ~implementation();

  void stop(const std::string& why) { send_anonymously(coordinator_, stop_training{why}); }
  void switch_policy(const std::string& policy, const std::string& why);
  bool wait_for(std::chrono::milliseconds span);
  training_progress progress() const;
  std::vector<std::string> name_waits(std::chrono::milliseconds span);
  training_report report(const std::function<bool()>& stop_test);
  run_trace trace();
  std::span<const float> parameters();
  const parameter_layout& layout() const noexcept { return *layout_; }
  std::uint64_t total_steps() const noexcept { return total_steps_; }
  std::string recording_failure() const { return recorder_ ? recorder_->failure() : ""; }

private:
  std::uint32_t workers() const { return workers_of(options_); }
  const std::string& first_policy() const { return policies_.front().policy; }
  /// From beginning to end: then there are no shards.
  bool hogwild() const { return policies_.size() == 1 && has_hogwild(policies_); }
  std::shared_ptr<const parameter_layout> replica_layout() const;
  caf::actor recorder() const { return recorder_ ? recorder_->actor() : caf::actor(); }
  void test(training_report& r, const std::function<bool()>& stop_test);
  void prepare_record_or_replay();
  std::shared_ptr<trace_track> new_track(std::string name) const;
  void spawn_shards();
  void spawn_feeder();
  void spawn_coordinator();
  void spawn_devices();
  model_request request_of(std::uint32_t worker) const;
  void give_model(device_actor_options& options);
  void wait();

  model_function model_;
  std::shared_ptr<const data_split> data_;
  training_options options_;
  std::vector<scheduled_policy> policies_;
  std::shared_ptr<const time_source> time_;
  const instant created_ = time_->now(); ///< where timelines begin
  std::unique_ptr<const cure> cure_;
  model_request request_;
  std::shared_ptr<const parameter_layout> layout_;
  std::shared_ptr<hogwild_store> store_;
  std::vector<float> parameters_;
  std::uint64_t total_steps_ = 0;

  mutable std::mutex mutex_; ///< guards the five below, which actors hand over to the owner
  std::condition_variable changed_;
  training_progress progress_;
  std::optional<run_outcome> outcome_;
  instant ended_{0};
  std::vector<std::string> waits_;
  instant started_{0};

  actor_config config_;
  actor_home home_{config_};
  std::vector<caf::actor> shards_;
  std::vector<caf::actor> devices_;
  std::vector<caf::actor> pieces_; ///< of workers that span several devices
  caf::actor feeder_;
  caf::actor tracker_;
  caf::actor coordinator_;
  std::optional<run_recorder> recorder_;
};

training::implementation::implementation(model_function model, std::shared_ptr<const data_split> data,
                                         training_options options, std::shared_ptr<const time_source> time)
    : model_(std::move(model)), data_(std::move(data)), options_(std::move(options)),
      policies_(checked_policies(options_, *data_)), time_(std::move(time)),
      config_(thread_count(options_.devices)) {
  cure_ = make_cure(options_.cure, {workers()});
  request_ = request_for(*data_, options_.batch);
  request_.seed = options_.seed;
  request_.workers = workers();
  for (std::uint32_t r = 0; r < workers(); ++r)
    require_placed(model_, request_of(r), options_.micro_batches, policies_);
  request_.devices = devices_of(options_, 0);
  layout_ = std::make_shared<parameter_layout>(lay_out(model_, request_, hogwild() ? 1 : options_.shards));
  require_dense_if_needed(options_, *layout_);
  prepare_record_or_replay();
  tracker_ = spawn<staleness_tracker>(home_.system(),
                                      staleness_tracker_options{time_, [this](const training_progress& p) {
                                                                  std::lock_guard guard(mutex_);
                                                                  progress_ = p;
                                                                }});
  spawn_shards();
  spawn_feeder();
  spawn_coordinator();
  started_ = time_->now();
  spawn_devices();
}

training::implementation::~implementation() {
  for (const auto& actors : {devices_, pieces_, shards_, {coordinator_, feeder_, tracker_}})
    for (const caf::actor& a : actors) send_anonymously(a, give_up{});
  if (recorder_) send_anonymously(recorder_->actor(), give_up{});
  home_.wait(); // they refer to what is destroyed after this
}

void training::implementation::prepare_record_or_replay() {
  if (options_.record.empty() && !options_.replay) return;
  if (has_hogwild(policies_))
    throw std::invalid_argument("record: hogwild has no order to record, since its workers write at once; "
                                "choose another policy");
  const auto facts = facts_of(model_, request_, *data_, options_);
  if (options_.replay) {
    require_repeatable(*options_.replay);
    require_same_run(*options_.replay, options_, facts);
    for (const recorded_switch& s : options_.replay->end.switches)
      require_switch(options_, policies_, s.policy); // the cure may exclude what the recording names
  }
  if (options_.record.empty()) return;
  recorder_.emplace(home_.system(), options_.record,
                    recording_header{workers(), options_.shards, facts, options_.words});
}

std::shared_ptr<trace_track> training::implementation::new_track(std::string name) const {
  if (options_.trace_events == 0) return nullptr;
  return std::make_shared<trace_track>(std::move(name), options_.trace_events, created_);
}

/// The first shard last: it leads the others where the policy wants them to agree.
void training::implementation::spawn_shards() {
  if (has_hogwild(policies_)) {
    std::vector<float> initial(layout_->size());
    for (std::size_t s = 0; s < layout_->shard_count(); ++s)
      layout_->initialise_shard(
          s, options_.seed, std::span(initial).subspan(layout_->shard(s).begin, layout_->shard(s).size()));
    store_ = std::make_shared<hogwild_store>(initial);
  }
  if (hogwild()) return;
  for (std::uint32_t s = options_.shards; s-- > 0;) {
    auto weights = std::make_shared<shard>(*layout_, s, options_.seed, shard_optimizer(options_));
    const std::vector<caf::actor> followers = s == 0 ? shards_ : std::vector<caf::actor>();
    parameter_actor_options duties{std::move(weights), first_policy(), workers(),  tracker_,       time_,
                                   followers,          options_.cure,  recorder(), options_.replay};
    duties.store = store_;
    duties.trace = new_track("shard " + std::to_string(s));
    const auto& own = options_.parameter_actor;
    shards_.insert(shards_.begin(), own ? own->spawn(home_.system(), std::move(duties))
                                        : spawn<parameter_actor>(home_.system(), std::move(duties)));
  }
}

void training::implementation::spawn_feeder() {
  const dealer_options deal = deal_of(options_, *data_, first_policy());
  total_steps_ = dealer(deal).batches();
  const std::shared_ptr<const dataset> samples(data_, &data_->train);
  feeder_ = spawn<feeder>(
      home_.system(), feeder_options{samples, deal, request_.nonzeros,
                                     options_.replay ? std::deque<std::uint64_t>() : switch_steps(policies_),
                                     recorder(), options_.replay, time_, new_track("feeder")});
  if (!options_.replay) return;
  total_steps_ = 0;
  for (const auto& dealt : options_.replay->batches) total_steps_ += dealt.size();
}

void training::implementation::spawn_coordinator() {
  coordinator_options options;
  options.workers = workers();
  options.policies = policies_;
  options.automatic = is_automatic(options_.policy) && !options_.replay;
  options.tracker = tracker_;
  options.time = time_;
  options.shards = shards_;
  options.feeder = feeder_;
  options.feeder_traced = options_.trace_events > 0;
  options.replayed = options_.replay;
  options.on_end = [this](run_outcome outcome) {
    std::lock_guard guard(mutex_);
    ended_ = time_->now();
    outcome_ = std::move(outcome);
    changed_.notify_all();
  };
  options.on_wait = [this](const wait_named& w) {
    std::lock_guard guard(mutex_);
    waits_.push_back(in_words(w, time_->now()));
    changed_.notify_all();
  };
  // On a thread of its own: it answers whoever asks from outside while every other thread computes a step.
  coordinator_ = spawn<coordinator, caf::detached>(home_.system(), std::move(options));
}

void training::implementation::spawn_devices() {
  for (std::uint32_t r = 0; r < workers(); ++r) {
    device_actor_options options;
    options.worker = {r};
    give_model(options);
    if (options_.local_steps > 0)
      options.local =
          std::make_shared<local_steps>(layout_, local_steps_options{options_.local_steps, options_.optimizer,
                                                                     cure_ ? cure_->pull() : std::nullopt});
    options.shards = shards_;
    if (store_) options.writer = std::make_shared<hogwild_writer>(*layout_, store_, options_.optimizer);
    options.direct = first_policy() == hogwild_policy::policy_name;
    for (std::size_t s = 0; s < layout_->shard_count(); ++s)
      options.shard_begins.push_back(layout_->shard(s).begin);
    options.clip_norm = options_.optimizer.clip_norm;
    options.feeder = feeder_;
    options.tracker = tracker_;
    options.coordinator = coordinator_;
    options.time = time_;
    options.sample_gap = options_.sample_gap;
    options.trace = new_track("worker " + std::to_string(r) +
                              (options.pieces ? "" : " on " + to_string(devices_of(options_, r).front())));
    devices_.push_back(spawn<device_actor>(home_.system(), std::move(options)));
  }
}

model_request training::implementation::request_of(std::uint32_t worker) const {
  model_request request = request_;
  request.worker = worker;
  request.devices = devices_of(options_, worker);
  return request;
}

/// On its own device, or in pieces, each with an actor.
void training::implementation::give_model(device_actor_options& options) {
  const model_request request = request_of(options.worker.value);
  const auto layout = replica_layout();
  if (request.devices.size() == 1) {
    options.model = std::make_shared<replica>(model_, request, layout);
    return;
  }
  spanning_replica::options span{options.worker, request.devices, {}, options_.micro_batches, layout, {}};
  for (std::size_t p = 0; p < request.devices.size(); ++p) {
    span.pieces.push_back(spawn<piece_actor>(
        home_.system(), piece_actor_options{p, request.devices, host_stream{}, model_, request, layout,
                                            request.devices.size() + 1, time_}));
    span.traces.push_back(new_track("worker " + std::to_string(options.worker.value) + ", piece on " +
                                    to_string(request.devices[p])));
  }
  pieces_.insert(pieces_.end(), span.pieces.begin(), span.pieces.end());
  options.model = options.pieces = std::make_shared<spanning_replica>(std::move(span));
}

/// A worker with weights of its own has them in one piece.
std::shared_ptr<const parameter_layout> training::implementation::replica_layout() const {
  if (options_.local_steps == 0) return layout_;
  return std::make_shared<parameter_layout>(lay_out(model_, request_, 1));
}

void training::implementation::switch_policy(const std::string& policy, const std::string& why) {
  if (options_.replay) throw std::invalid_argument("policy '" + policy + "': a replay switches as recorded");
  require_switch(options_, policies_, policy);
  if (hogwild()) throw std::invalid_argument("policy '" + policy + "': hogwild has no shards to switch");
  if (policy == hogwild_policy::policy_name && !store_)
    throw std::invalid_argument(
        "policy 'hogwild': this run has no block to share; name hogwild among its policies");
  if (options_.parameter_actor && !options_.parameter_actor->switches)
    throw std::invalid_argument("parameter actor '" + options_.parameter_actor->name +
                                "' switches no policy");
  send_anonymously(coordinator_, request_switch{policy, why});
}

bool training::implementation::wait_for(std::chrono::milliseconds span) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, span, [this] { return outcome_.has_value(); });
}

void training::implementation::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return outcome_.has_value(); });
}

training_progress training::implementation::progress() const {
  std::lock_guard guard(mutex_);
  return progress_;
}

std::vector<std::string> training::implementation::name_waits(std::chrono::milliseconds span) {
  std::unique_lock lock(mutex_);
  waits_.clear();
  send_anonymously(coordinator_, mailgrad::name_waits{});
  changed_.wait_for(lock, span, [this] { return outcome_.has_value(); });
  return waits_;
}

std::span<const float> training::implementation::parameters() {
  wait();
  if (!parameters_.empty()) return parameters_;
  if (hogwild()) {
    parameters_.resize(layout_->size());
    store_->load(0, parameters_);
  } else {
    parameters_ = joined_weights(*outcome_, *layout_).value_or(std::vector<float>());
  }
  return parameters_;
}

training_report training::implementation::report(const std::function<bool()>& stop_test) {
  wait();
  training_report r = report_of(*outcome_, store_ ? std::optional(store_->version()) : std::nullopt);
  r.command = options_.words;
  r.policy = options_.policy;
  if (options_.parameter_actor) r.policy += " by " + options_.parameter_actor->name;
  r.cure = options_.cure;
  r.data = data_->name;
  r.optimizer = name(options_.optimizer);
  r.learning_rate = base_learning_rate(options_.optimizer);
  r.batch = options_.batch;
  r.local_steps = options_.local_steps;
  if (options_.local_steps > 0) {
    r.outer_optimizer = name(options_.outer);
    r.outer_learning_rate = base_learning_rate(options_.outer);
  }
  r.shards = static_cast<std::uint32_t>(shards_.size());
  if (cure_ && !options_.parameter_actor) r.mean_step_factor = mean_factor(*cure_, r.staleness);
  for (const device d : options_.devices) r.devices.push_back(to_string(d));
  r.workers = workers();
  r.wall_seconds = in_seconds(ended_ - started_);
  r.seed = options_.seed;
  if (!parameters().empty()) r.parameters_sha256 = sha256(std::as_bytes(parameters()));
  if (recorder_) recorder_->finish(feeder_, *outcome_, r);
  if (parameters().empty()) return r;
  if (outcome_->how == run_outcome::ending::diverged) return r;
  if (data_->test.size() > 0) test(r, stop_test);
  if (options_.text.length > 0 && data_->train.is_tokens())
    r.sample = write_text(model_, request_, *layout_, parameters(), data_->class_names, options_.text);
  return r;
}

void training::implementation::test(training_report& r, const std::function<bool()>& stop_test) {
  const evaluation tested = evaluate(model_, request_, *layout_, parameters(), data_->test, stop_test);
  if (tested.whole) {
    r.test_accuracy = tested.accuracy;
    r.test_rmse = tested.rmse;
  } else if (r.why.empty()) {
    r.why = "the test was ended early";
  }
}

run_trace training::implementation::trace() {
  wait();
  return trace_of(*outcome_, created_, ended_);
}

training::training(model_function model, std::shared_ptr<const data_split> data, training_options options,
                   std::shared_ptr<const time_source> time)
    : self_(std::make_unique<implementation>(std::move(model), std::move(data), std::move(options),
                                             std::move(time))) {}
training::~training() = default;

void training::stop(const std::string& why) { self_->stop(why); }
void training::switch_policy(const std::string& policy, const std::string& why) {
  self_->switch_policy(policy, why);
}
std::string training::recording_failure() const { return self_->recording_failure(); }
bool training::wait_for(std::chrono::milliseconds span) { return self_->wait_for(span); }
training_progress training::progress() const { return self_->progress(); }
std::vector<std::string> training::name_waits(std::chrono::milliseconds span) {
  return self_->name_waits(span);
}
training_report training::report(const std::function<bool()>& stop_test) { return self_->report(stop_test); }
run_trace training::trace() { return self_->trace(); }
std::uint64_t training::total_steps() const noexcept { return self_->total_steps(); }
std::span<const float> training::parameters() { return self_->parameters(); }
const parameter_layout& training::layout() const noexcept { return self_->layout(); }

training_report train(model_function model, std::shared_ptr<const data_split> data, training_options options,
                      const std::function<void(const training_progress&)>& observe) {
  training run(std::move(model), std::move(data), std::move(options));
  while (!run.wait_for(std::chrono::milliseconds{250}))
    if (observe) observe(run.progress());
  return run.report();
}

} // namespace mailgrad
