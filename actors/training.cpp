#include <mailgrad/actors/training.hpp>

#include <mailgrad/actors/coordinator.hpp>
#include <mailgrad/actors/device_actor.hpp>
#include <mailgrad/actors/evaluation.hpp>
#include <mailgrad/actors/feeder.hpp>
#include <mailgrad/actors/parameter_actor.hpp>
#include <mailgrad/actors/run_books.hpp>
#include <mailgrad/actors/sha256.hpp>
#include <mailgrad/actors/staleness_tracker.hpp>
#include <mailgrad/optim/cures/step_scale.hpp>
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

/// The policies to run, if all options are right.
std::vector<scheduled_policy> checked(const training_options& o, const data_split& data) {
  if (o.devices.empty()) throw std::invalid_argument("devices: name at least one, such as cpu:0");
  for (const device d : o.devices) require_available(d);
  auto policies = parse_policy_schedule(o.policy, static_cast<std::uint32_t>(o.devices.size()));
  std::vector<std::string_view> names;
  names.reserve(policies.size());
  for (const scheduled_policy& p : policies) names.push_back(p.policy);
  require_cure(o.cure, names, static_cast<std::uint32_t>(o.devices.size()));
  require_valid(o.optimizer);
  if (o.batch == 0) throw std::invalid_argument("batch: 0 samples; at least 1 is needed");
  if (o.shards == 0) throw std::invalid_argument("shards: 0; at least 1 is needed");
  if (o.epochs == 0 && o.steps == 0)
    throw std::invalid_argument("epochs and steps are both 0: nothing to do");
  if (data.train.size() > 0 && o.batch > data.train.size())
    throw std::invalid_argument("batch: " + std::to_string(o.batch) + " samples; the training set has " +
                                std::to_string(data.train.size()));
  if (data.train.size() == 0)
    throw std::invalid_argument("data '" + data.name + "' holds no sample to train on");
  return policies;
}

model_request request_for(const data_split& data, std::size_t batch) {
  model_request request;
  request.sample_dims = data.train.sample_dims();
  request.features = data.train.is_tokens() ? feature_kind::tokens : feature_kind::numbers;
  request.classes = data.train.classes();
  request.batch = batch;
  request.nonzeros = data.train.is_sparse() ? max_nonzeros(data.train, batch) : 0;
  return request;
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
  training_report report();
  run_trace trace();
  std::span<const float> parameters();
  const parameter_layout& layout() const noexcept { return *layout_; }
  std::uint64_t total_steps() const noexcept { return total_steps_; }

private:
  std::uint32_t workers() const { return static_cast<std::uint32_t>(options_.devices.size()); }
  const std::string& first_policy() const { return policies_.front().policy; }
  bool hogwild() const { return first_policy() == hogwild_policy::policy_name; }
  std::shared_ptr<trace_track> new_track(std::string name) const;
  void spawn_shards();
  void spawn_feeder();
  void spawn_coordinator();
  void spawn_devices();
  void wait();

  model_function model_;
  std::shared_ptr<const data_split> data_;
  training_options options_;
  std::vector<scheduled_policy> policies_;
  std::shared_ptr<const time_source> time_;
  const instant created_ = time_->now(); ///< where timelines begin
  std::shared_ptr<const step_scale> cure_;
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
  caf::actor feeder_;
  caf::actor tracker_;
  caf::actor coordinator_;
};

training::implementation::implementation(model_function model, std::shared_ptr<const data_split> data,
                                         training_options options, std::shared_ptr<const time_source> time)
    : model_(std::move(model)), data_(std::move(data)), options_(std::move(options)),
      policies_(checked(options_, *data_)), time_(std::move(time)), config_(thread_count(options_.devices)) {
  cure_ = make_step_scale(options_.cure, workers());
  request_ = request_for(*data_, options_.batch);
  request_.seed = options_.seed;
  layout_ = std::make_shared<parameter_layout>(lay_out(model_, request_, hogwild() ? 1 : options_.shards));
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
  for (const auto& actors : {devices_, shards_, {coordinator_, feeder_, tracker_}})
    for (const caf::actor& a : actors) send_anonymously(a, give_up{});
  home_.wait(); // they refer to what is destroyed after this
}

std::shared_ptr<trace_track> training::implementation::new_track(std::string name) const {
  if (options_.trace_events == 0) return nullptr;
  return std::make_shared<trace_track>(std::move(name), options_.trace_events, created_);
}

/// The first shard last: it leads the others where the policy wants them to agree.
void training::implementation::spawn_shards() {
  if (hogwild()) {
    std::vector<float> initial(layout_->size());
    layout_->initialise_shard(0, options_.seed, initial);
    store_ = std::make_shared<hogwild_store>(initial);
    return;
  }
  for (std::uint32_t s = options_.shards; s-- > 0;) {
    auto weights = std::make_shared<shard>(*layout_, s, options_.seed, options_.optimizer);
    const std::vector<caf::actor> followers = s == 0 ? shards_ : std::vector<caf::actor>();
    shards_.insert(shards_.begin(),
                   spawn<parameter_actor>(
                       home_.system(),
                       parameter_actor_options{std::move(weights), first_policy(), workers(), tracker_, time_,
                                               followers, cure_, new_track("shard " + std::to_string(s))}));
  }
}

void training::implementation::spawn_feeder() {
  const bool in_step = keeps_in_step(first_policy());
  const dealer_options deal{data_->train.size(),
                            options_.batch,
                            options_.steps > 0 ? std::numeric_limits<std::uint32_t>::max() : options_.epochs,
                            options_.steps,
                            options_.seed,
                            in_step ? deal_mode::by_rank : deal_mode::on_demand,
                            workers()};
  total_steps_ = dealer(deal).batches();
  if (policies_.back().from_step >= total_steps_ && policies_.size() > 1)
    throw std::invalid_argument("policy '" + options_.policy + "': the run ends at step " +
                                std::to_string(total_steps_) + ", before the switch at step " +
                                std::to_string(policies_.back().from_step));
  const std::shared_ptr<const dataset> samples(data_, &data_->train);
  feeder_ = spawn<feeder>(home_.system(),
                          feeder_options{samples, deal, request_.nonzeros, switch_steps(policies_)});
}

void training::implementation::spawn_coordinator() {
  coordinator_options options;
  options.workers = workers();
  options.policies = policies_;
  options.time = time_;
  options.shards = shards_;
  options.feeder = feeder_;
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
  for (std::uint32_t r = 0; r < options_.devices.size(); ++r) {
    device_actor_options options;
    options.worker = {r};
    options.model = std::make_shared<replica>(model_, request_, layout_);
    options.shards = shards_;
    if (store_) options.writer = std::make_shared<hogwild_writer>(*layout_, store_, options_.optimizer);
    options.clip_norm = options_.optimizer.clip_norm;
    options.feeder = feeder_;
    options.tracker = tracker_;
    options.coordinator = coordinator_;
    options.time = time_;
    options.sample_gap = options_.sample_gap;
    options.trace = new_track("worker " + std::to_string(r) + " on " + to_string(options_.devices[r]));
    devices_.push_back(spawn<device_actor>(home_.system(), std::move(options)));
  }
}

void training::implementation::switch_policy(const std::string& policy, const std::string& why) {
  require_policy(policy, workers());
  if (hogwild() || policy == hogwild_policy::policy_name)
    throw std::invalid_argument("policy '" + policy + "': hogwild has no shards to switch");
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
  if (store_) {
    parameters_.resize(layout_->size());
    store_->load(0, parameters_);
  } else {
    parameters_ = joined_weights(*outcome_, *layout_).value_or(std::vector<float>());
  }
  return parameters_;
}

training_report training::implementation::report() {
  wait();
  training_report r = report_of(*outcome_, store_ ? std::optional(store_->version()) : std::nullopt);
  r.policy = options_.policy;
  r.cure = options_.cure;
  r.data = data_->name;
  r.optimizer = name(options_.optimizer);
  r.learning_rate = base_learning_rate(options_.optimizer);
  r.batch = options_.batch;
  r.shards = static_cast<std::uint32_t>(shards_.size());
  if (cure_) r.mean_step_factor = mean_factor(*cure_, r.staleness);
  for (const device d : options_.devices) r.devices.push_back(to_string(d));
  r.wall_seconds = in_seconds(ended_ - started_);
  r.seed = options_.seed;
  if (parameters().empty()) return r;
  r.parameters_sha256 = sha256(std::as_bytes(parameters()));
  if (data_->test.size() > 0 && outcome_->how != run_outcome::ending::diverged)
    r.test_accuracy = evaluate(model_, request_, *layout_, parameters(), data_->test).accuracy;
  return r;
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
bool training::wait_for(std::chrono::milliseconds span) { return self_->wait_for(span); }
training_progress training::progress() const { return self_->progress(); }
std::vector<std::string> training::name_waits(std::chrono::milliseconds span) {
  return self_->name_waits(span);
}
training_report training::report() { return self_->report(); }
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
