#include <mailgrad/actors/training.hpp>

#include <mailgrad/actors/run/checked_options.hpp>
#include <mailgrad/actors/run/run_actors.hpp>
#include <mailgrad/actors/run/run_recorder.hpp>
#include <mailgrad/actors/shard/own_parameter_actor.hpp>
#include <mailgrad/engine/account/provenance.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/model/data_request.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/model/finite_weights.hpp>
#include <mailgrad/engine/record/killed_recording.hpp>
#include <mailgrad/engine/record/run_fingerprint.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/engine/worker/worker_devices.hpp>
#include <mailgrad/files/sha256.hpp>
#include <mailgrad/optim/cures/cure.hpp>
#include <mailgrad/optim/policies/hogwild.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

template <class T>
std::shared_ptr<T> required(std::shared_ptr<T> given, const char* what) {
  if (!given) throw std::invalid_argument(std::string("training: there is no ") + what);
  return given;
}

} // namespace

class training::implementation {
public:
  implementation(model_function model, std::shared_ptr<const data_split> data, training_options options,
                 std::shared_ptr<const time_source> time);
  ~implementation();

  void stop(const std::string& why) { send_anonymously(actors_.coordinator(), stop_training{why}); }
  void switch_policy(const std::string& policy, const std::string& why);
  bool wait_for(std::chrono::milliseconds span);
  training_progress progress() const;
  std::vector<std::string> name_waits(std::chrono::milliseconds span);
  training_report report(const std::function<bool()>& stop_test);
  run_trace trace();
  std::span<const float> parameters();
  const parameter_layout& layout() const noexcept { return *layout_; }
  std::uint64_t total_steps() const noexcept { return actors_.total_steps(); }
  std::string recording_failure() const { return recorder_ ? recorder_->failure() : ""; }

private:
  std::uint32_t workers() const { return workers_of(options_); }
  /// From beginning to end: then there are no shards.
  bool hogwild() const { return policies_.size() == 1 && has_hogwild(policies_); }
  void require_finite_weights(training_report& r);
  void try_out(training_report& r, const std::function<bool()>& stop_test);
  std::uint64_t batches_per_epoch() const {
    return (data_->train.size() + options_.batch - 1) / options_.batch;
  }
  void test(training_report& r, const std::function<bool()>& stop_test);
  void prepare_record_or_replay();
  void rehearse_replay();
  run_actors_options actors_options();
  void wait();

  model_function model_;
  std::shared_ptr<const data_split> data_;
  training_options options_;
  std::vector<scheduled_policy> policies_;
  std::shared_ptr<const time_source> time_;
  const instant created_ = time_->now(); ///< where timelines begin
  std::unique_ptr<const cure> cure_;
  std::uint64_t planned_steps_ = 0; ///< of the recorded run, in a replay
  model_request request_;
  std::shared_ptr<const parameter_layout> layout_;
  std::vector<float> parameters_;

  mutable std::mutex mutex_; ///< guards the four below, which actors hand over to the owner
  std::condition_variable changed_;
  training_progress progress_;
  std::optional<run_outcome> outcome_;
  instant ended_{0};
  std::vector<std::string> waits_;

  run_actors actors_;
  std::optional<run_recorder> recorder_;
};

training::implementation::implementation(model_function model, std::shared_ptr<const data_split> data,
                                         training_options options, std::shared_ptr<const time_source> time)
    : model_(std::move(model)), data_(required(std::move(data), "data set")), options_(std::move(options)),
      policies_(checked_policies(options_, *data_)), time_(required(std::move(time), "time source")),
      actors_(options_.devices) {
  cure_ = make_cure(options_.cure, {workers()});
  request_ = request_for(*data_, options_.batch);
  request_.seed = options_.seed;
  request_.workers = workers();
  if (data_->test.size() > 0) require_readable(request_, data_->test);
  for (std::uint32_t r = 0; r < workers(); ++r)
    require_placed(model_, request_of(r, request_, options_), options_.micro_batches, policies_);
  request_.devices = devices_of(options_, 0);
  layout_ = std::make_shared<parameter_layout>(lay_out(model_, request_, hogwild() ? 1 : options_.shards));
  require_dense_if_needed(options_, *layout_);
  prepare_record_or_replay();
  actors_.start(actors_options());
}

/// The actors use the members declared above them, so they must end first.
training::implementation::~implementation() { actors_.give_up(); }

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
    rehearse_replay();
  }
  if (options_.record.empty()) return;
  recorder_.emplace(actors_.system(), options_.record,
                    recording_header{workers(), options_.shards, facts, options_.words});
}

/// Of a run that was killed, what can be repeated takes the place of the recording.
void training::implementation::rehearse_replay() {
  const std::shared_ptr<const recording> what = options_.replay;
  const std::string& first_policy = policies_.front().policy;
  planned_steps_ = dealer(deal_of(options_, *data_, first_policy)).batches();
  const replay_terms terms{first_policy, options_.local_steps, cure_ && cure_->pull(), planned_steps_};
  if (what->killed)
    options_.replay = std::make_shared<const recording>(repeatable_part(*what, terms));
  else
    require_replay_ends(*what, terms);
}

run_actors_options training::implementation::actors_options() {
  run_actors_options options{model_, data_, options_, policies_, request_, layout_, time_, created_};
  if (recorder_) options.recorder = recorder_->actor();
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
    std::lock_guard guard(mutex_);
    waits_.push_back(in_words(w, time_->now()));
    changed_.notify_all();
  };
  return options;
}

void training::implementation::switch_policy(const std::string& policy, const std::string& why) {
  if (options_.replay) throw std::invalid_argument("policy '" + policy + "': a replay switches as recorded");
  require_switch(options_, policies_, policy);
  if (hogwild()) throw std::invalid_argument("policy '" + policy + "': hogwild has no shards to switch");
  if (policy == hogwild_policy::policy_name && !actors_.store())
    throw std::invalid_argument(
        "policy 'hogwild': this run has no block to share; name hogwild among its policies");
  if (options_.parameter_actor && !options_.parameter_actor->switches)
    throw std::invalid_argument("parameter actor '" + options_.parameter_actor->name +
                                "' switches no policy");
  send_anonymously(actors_.coordinator(), request_switch{policy, why});
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
  return outcome_ ? final_progress(*outcome_, ended_ - actors_.started()) : progress_;
}

std::vector<std::string> training::implementation::name_waits(std::chrono::milliseconds span) {
  std::unique_lock lock(mutex_);
  waits_.clear();
  send_anonymously(actors_.coordinator(), mailgrad::name_waits{});
  changed_.wait_for(lock, span, [this] { return outcome_.has_value(); });
  return waits_;
}

std::span<const float> training::implementation::parameters() {
  wait();
  if (!parameters_.empty()) return parameters_;
  if (hogwild()) {
    parameters_.resize(layout_->size());
    actors_.store()->load(0, parameters_);
  } else {
    parameters_ = joined_weights(*outcome_, *layout_).value_or(std::vector<float>());
  }
  return parameters_;
}

training_report training::implementation::report(const std::function<bool()>& stop_test) {
  wait();
  const hogwild_store* store = actors_.store();
  training_report r = report_of(*outcome_, store ? std::optional(store->version()) : std::nullopt);
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
  r.shards = static_cast<std::uint32_t>(actors_.shard_count());
  if (cure_ && !options_.parameter_actor) r.mean_step_factor = mean_factor(*cure_, r.staleness);
  for (const device d : options_.devices) r.devices.push_back(to_string(d));
  r.workers = workers();
  r.micro_batches = options_.micro_batches;
  r.origin = this_program();
  r.epochs = static_cast<double>(r.steps) / static_cast<double>(batches_per_epoch());
  r.weights = layout_->weight_count();
  r.wall_seconds = in_seconds(ended_ - actors_.started());
  r.seed = options_.seed;
  if (options_.replay && options_.replay->killed && r.ended == "completed")
    r.why = "the recording ends after " + std::to_string(r.steps) + " of " + std::to_string(planned_steps_) +
            " steps, since its run was killed";
  if (!parameters().empty()) r.parameters_sha256 = sha256(std::as_bytes(parameters()));
  if (recorder_) recorder_->finish(actors_.feeder(), *outcome_, r);
  if (parameters().empty()) return r;
  require_finite_weights(r);
  if (r.ended != "diverged") try_out(r, stop_test);
  return r;
}

/// Also finds what the last updates did, from which no loss was computed any more.
void training::implementation::require_finite_weights(training_report& r) {
  const std::optional<std::string> found = not_finite_in_words(*layout_, parameters());
  if (!found) return;
  if (r.ended != "failed") r.ended = "diverged";
  const std::string rules =
      "rule '" + r.optimizer + "'" + (options_.local_steps > 0 ? " and '" + r.outer_optimizer + "'" : "");
  r.why +=
      (r.why.empty() ? "" : "; ") + *found + " after " + std::to_string(r.updates) + " updates by " + rules;
}

/// A run whose weights cannot be tested keeps its report, and says why.
void training::implementation::try_out(training_report& r, const std::function<bool()>& stop_test) {
  try {
    if (data_->test.size() > 0) test(r, stop_test);
    if (options_.text.length > 0 && data_->train.is_tokens())
      r.sample = write_text(model_, request_, *layout_, parameters(), data_->class_names, options_.text);
  } catch (const std::exception& e) {
    r.ended = "failed";
    r.why += std::string(r.why.empty() ? "" : "; ") + "the test of the trained weights failed: " + e.what();
  }
}

void training::implementation::test(training_report& r, const std::function<bool()>& stop_test) {
  const evaluation tested = evaluate(model_, request_, *layout_, parameters(), data_->test, stop_test);
  if (tested.whole) {
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
