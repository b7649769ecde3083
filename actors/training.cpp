#include <mailgrad/actors/training.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/run/checkpoint_writer.hpp>
#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/run/run_home.hpp>
#include <mailgrad/actors/run/run_recorder.hpp>
#include <mailgrad/actors/run/run_watch.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/model/finite_weights.hpp>
#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/resume.hpp>
#include <mailgrad/engine/plan/run_description.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/files/sha256.hpp>

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>

namespace mailgrad {
using messaging::send_anonymously, messaging::spawn;

namespace {

template <class T>
std::shared_ptr<T> required(std::shared_ptr<T> given, const char* what) {
  if (!given) throw std::invalid_argument(std::string("training: there is no ") + what);
  return given;
}

run_id drawn_run_id() {
  std::random_device source;
  return {std::uint64_t{source()} << 32 | source()};
}

/// The plan of a run on the processors of this machine, or of the replay that the options name.
run_plan plan_on_threads(model_function model, std::shared_ptr<const data_split> data,
                         training_options options) {
  for (const device d : options.devices) require_available(d);
  run_plan plan = plan_run(std::move(model), std::move(data), std::move(options));
  plan.run = drawn_run_id();
  if (plan.options.replay) plan_replay(plan);
  if (plan.options.resume) plan_resume(plan);
  require_keepable(plan);
  return plan;
}

} // namespace

class training::implementation {
public:
  implementation(model_function model, std::shared_ptr<const data_split> data, training_options options,
                 std::shared_ptr<const time_source> time);
  ~implementation();

  void stop(const std::string& why) { send_anonymously(crew_->coordinator(), stop_training{why}); }
  void switch_policy(const std::string& policy, const std::string& why);
  void take_checkpoint();
  checkpoint_account checkpoints() const;
  bool wait_for(std::chrono::milliseconds span);
  training_progress progress() const;
  std::vector<std::string> name_waits(std::chrono::milliseconds span);
  training_report report(const std::function<bool()>& stop_test);
  run_trace trace();
  std::span<const float> parameters();
  std::vector<float> predict(const named_arrays& samples);
  const parameter_layout& layout() const noexcept { return *plan_.layout; }
  std::uint64_t total_steps() const noexcept { return plan_.steps; }
  void observe(std::function<void(const run_event&)> observer) { watch_->observe(std::move(observer)); }
  std::string metrics_failure() const { return watch_->failure(); }
  std::string recording_failure() const { return recorder_ ? recorder_->failure() : ""; }

private:
  const training_options& options() const { return plan_.options; }
  void require_finite_weights(training_report& r);
  void try_out(training_report& r, const std::function<bool()>& stop_test);
  void test(training_report& r, const std::function<bool()>& stop_test);
  void test_if_sound(training_report& r, const std::function<bool()>& stop_test);
  void record();
  run_crew_options crew_options();
  void keep_checkpoints();
  void wait();

  const std::shared_ptr<const time_source> time_;
  const instant created_; ///< where timelines begin
  const run_plan plan_;
  std::vector<float> parameters_;

  mutable std::mutex mutex_; ///< guards the five members below, which actors write and the owner reads
  std::condition_variable changed_;
  training_progress progress_;
  std::optional<run_outcome> outcome_;
  instant ended_{0};
  std::vector<std::string> waits_;
  checkpoint_account checkpoints_;
  std::atomic<bool> tests_end_{false}; ///< a test during the run, on its own thread, gives up

  run_home home_; ///< destroyed after the members below, which hold actors; waits for the last actor
  std::optional<run_recorder> recorder_;
  std::optional<run_watch> watch_;
  caf::actor checkpoint_writer_; ///< until the crew has it
  std::optional<run_crew> crew_;
};

training::implementation::implementation(model_function model, std::shared_ptr<const data_split> data,
                                         training_options options, std::shared_ptr<const time_source> time)
    : time_(required(std::move(time), "time source")), created_(time_->now()),
      plan_(plan_on_threads(std::move(model), std::move(data), std::move(options))),
      home_(plan_.options.devices) {
  if (!plan_.options.record.empty()) record();
  if (!plan_.options.checkpoints.folder.empty()) keep_checkpoints();
  watch_.emplace(home_.system(), plan_.options.metrics);
  crew_.emplace(home_.system(), plan_, crew_options());
  checkpoint_writer_ = nullptr;
}

/// The actors use the members declared above them, so they must end first.
training::implementation::~implementation() {
  tests_end_ = true;
  crew_->give_up();
  home_.wait();
}

void training::implementation::record() {
  require_recordable(plan_);
  const auto facts = facts_of(plan_.model, plan_.request, *plan_.data, options());
  recorder_.emplace(home_.system(), options().record,
                    recording_header{plan_.workers(), options().shards, facts, options().words});
}

void training::implementation::keep_checkpoints() {
  const checkpoint_options& o = options().checkpoints;
  prepare_checkpoint_folder(o.folder, options().resume != nullptr);
  checkpoint_writer_ =
      spawn<checkpoint_writer, caf::detached>(home_.system(), checkpoint_writer_options{o.folder, o.keep});
}

void training::implementation::take_checkpoint() {
  if (options().checkpoints.folder.empty())
    throw std::invalid_argument("checkpoint: the run has no folder for checkpoints");
  send_anonymously(crew_->coordinator(), request_checkpoint{});
}

checkpoint_account training::implementation::checkpoints() const {
  std::lock_guard guard(mutex_);
  return checkpoints_;
}

run_crew_options training::implementation::crew_options() {
  run_crew_options options{time_, created_};
  if (recorder_) options.recorder = recorder_->actor();
  options.checkpoint_writer = checkpoint_writer_;
  options.on_checkpoint = [this](const checkpoint_account& account) {
    std::lock_guard guard(mutex_);
    checkpoints_ = account;
  };
  options.observer = watch_->actor();
  options.stop_tests = [this] { return tests_end_.load(); };
  options.on_progress = [this](const training_progress& p) {
    std::lock_guard guard(mutex_);
    progress_ = p;
  };
  options.on_end = [this](run_outcome outcome) {
    std::lock_guard guard(mutex_);
    ended_ = time_->now();
    outcome_ = std::move(outcome);
    changed_.notify_all();
  };
  options.on_wait = [this](const wait_named& w) {
    watch_->tell(w);
    std::lock_guard guard(mutex_);
    waits_.push_back(in_words(w));
    changed_.notify_all();
  };
  return options;
}

void training::implementation::switch_policy(const std::string& policy, const std::string& why) {
  if (options().replay) throw std::invalid_argument("policy '" + policy + "': a replay switches as recorded");
  require_switch(options(), plan_.policies, plan_.cure, policy);
  if (!plan_.has_shards())
    throw std::invalid_argument("policy '" + policy + "': hogwild has no shards to switch");
  if (!policy_spec(policy, plan_.workers()).traits().needs_shards && !crew_->store())
    throw std::invalid_argument(
        "policy 'hogwild': this run has no block to share; name hogwild among its policies");
  if (options().parameter_actor && !options().parameter_actor->switches)
    throw std::invalid_argument("parameter actor '" + options().parameter_actor->name +
                                "' switches no policy");
  send_anonymously(crew_->coordinator(), request_switch{policy, why});
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
  return outcome_ ? final_progress(*outcome_, ended_ - crew_->started()) : progress_;
}

std::vector<std::string> training::implementation::name_waits(std::chrono::milliseconds span) {
  std::unique_lock lock(mutex_);
  waits_.clear();
  send_anonymously(crew_->coordinator(), mailgrad::name_waits{});
  changed_.wait_for(lock, span, [this] { return outcome_.has_value(); });
  return waits_;
}

std::vector<float> training::implementation::predict(const named_arrays& samples) {
  if (parameters().empty()) throw std::runtime_error("predict: a shard was lost, and its weights with it");
  return mailgrad::predict(plan_.model, plan_.request, layout(), parameters(), samples);
}

std::span<const float> training::implementation::parameters() {
  wait();
  if (!parameters_.empty()) return parameters_;
  if (!plan_.has_shards()) {
    parameters_.resize(layout().size());
    crew_->store()->load(0, parameters_);
  } else {
    parameters_ = joined_weights(*outcome_, layout()).value_or(std::vector<float>());
  }
  return parameters_;
}

training_report training::implementation::report(const std::function<bool()>& stop_test) {
  wait();
  tests_end_ = true;
  const hogwild_store* store = crew_->store();
  training_report r = report_of(*outcome_, store ? std::optional(store->version()) : std::nullopt);
  describe(r, plan_);
  if (options().parameter_actor) r.policy += " by " + options().parameter_actor->name;
  r.wall_seconds = in_seconds(ended_ - crew_->started());
  if (const auto& from = plan_.resumed) {
    r.resumed = resumed_figures{from->from->path().string(), from->card.steps};
    if (from->same_workers) r.wall_seconds += in_seconds(instant{from->card.elapsed});
  }
  if (!options().checkpoints.folder.empty()) r.checkpoints = outcome_->checkpoints;
  if (!parameters().empty()) r.parameters_sha256 = sha256(std::as_bytes(parameters()));
  if (recorder_) recorder_->finish(crew_->feeder(), *outcome_, r);
  test_if_sound(r, stop_test);
  watch_->finish(crew_->tracker(), r);
  return r;
}

void training::implementation::test_if_sound(training_report& r, const std::function<bool()>& stop_test) {
  if (parameters().empty()) return;
  require_finite_weights(r);
  if (r.ended != "diverged") try_out(r, stop_test);
}

/// Also finds infinite weights of the last updates, after which no loss was computed.
void training::implementation::require_finite_weights(training_report& r) {
  const std::optional<std::string> found = not_finite_in_words(layout(), parameters());
  if (!found) return;
  if (r.ended != "failed") r.ended = "diverged";
  const std::string rules =
      "rule '" + r.optimizer + "'" + (options().local_steps > 0 ? " and '" + r.outer_optimizer + "'" : "");
  r.why += fmt::format("{}{} after {} updates by {}", r.why.empty() ? "" : "; ", *found, r.updates, rules);
}

/// A run whose weights cannot be tested still has a report, which tells the reason.
void training::implementation::try_out(training_report& r, const std::function<bool()>& stop_test) {
  try {
    if (plan_.data->test.size() > 0) test(r, stop_test);
    if (options().text.length > 0 && plan_.data->train.is_tokens())
      r.sample = write_text(plan_.model, plan_.request, layout(), parameters(), plan_.data->class_names,
                            options().text);
  } catch (const std::exception& e) {
    r.ended = "failed";
    r.why += std::string(r.why.empty() ? "" : "; ") + "the test of the trained weights failed: " + e.what();
  }
}

void training::implementation::test(training_report& r, const std::function<bool()>& stop_test) {
  const evaluation tested =
      evaluate(plan_.model, plan_.request, layout(), parameters(), plan_.data->test, stop_test);
  if (tested.whole) {
    r.test_loss = tested.loss;
    r.test_accuracy = tested.accuracy;
    r.test_rmse = tested.rmse;
  } else if (r.ended == "completed") {
    r.why += std::string(r.why.empty() ? "" : "; ") + "the test was ended early";
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
void training::observe(std::function<void(const run_event&)> observer) {
  self_->observe(std::move(observer));
}
std::string training::metrics_failure() const { return self_->metrics_failure(); }
std::string training::recording_failure() const { return self_->recording_failure(); }
void training::take_checkpoint() { self_->take_checkpoint(); }
checkpoint_account training::checkpoints() const { return self_->checkpoints(); }
bool training::wait_for(std::chrono::milliseconds span) { return self_->wait_for(span); }
training_progress training::progress() const { return self_->progress(); }
std::vector<std::string> training::name_waits(std::chrono::milliseconds span) {
  return self_->name_waits(span);
}
training_report training::report(const std::function<bool()>& stop_test) { return self_->report(stop_test); }
run_trace training::trace() { return self_->trace(); }
std::uint64_t training::total_steps() const noexcept { return self_->total_steps(); }
std::span<const float> training::parameters() { return self_->parameters(); }
std::vector<named_weights> training::weights() {
  const std::span<const float> all = parameters();
  return all.empty() ? std::vector<named_weights>() : weights_by_name(layout(), all);
}
std::vector<float> training::predict(const named_arrays& samples) { return self_->predict(samples); }
const parameter_layout& training::layout() const noexcept { return self_->layout(); }

training_report train(model_function model, std::shared_ptr<const data_split> data, training_options options,
                      const std::function<void(const training_progress&)>& observe) {
  training run(std::move(model), std::move(data), std::move(options));
  while (!run.wait_for(std::chrono::milliseconds{250}))
    if (observe) observe(run.progress());
  return run.report();
}

} // namespace mailgrad
