#include <mailgrad/actors/training.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/remote/gathering.hpp>
#include <mailgrad/actors/remote/run_desk.hpp>
#include <mailgrad/actors/remote/worker_server.hpp>
#include <mailgrad/actors/run/asked_switch.hpp>
#include <mailgrad/actors/run/books_desk.hpp>
#include <mailgrad/actors/run/checkpoint_writer.hpp>
#include <mailgrad/actors/run/ended_weights.hpp>
#include <mailgrad/actors/run/planned_run.hpp>
#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/run/run_home.hpp>
#include <mailgrad/actors/run/run_recorder.hpp>
#include <mailgrad/actors/run/run_watch.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/checkpoint/left_branch.hpp>
#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/plan/final_test.hpp>
#include <mailgrad/engine/plan/resume.hpp>
#include <mailgrad/engine/plan/run_description.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/plan/told_computers.hpp>
#include <mailgrad/engine/worker/delayed_runner.hpp>
#include <mailgrad/files/folder_lock.hpp>
#include <mailgrad/files/sha256.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
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

/// What keeps the best weights of a run, in the folder of its checkpoints if it has one.
best_weights best_weights_of(const run_plan& plan) {
  const std::string& folder = plan.options.checkpoints.folder;
  return best_weights(folder.empty() ? std::nullopt : std::optional<std::filesystem::path>(folder),
                      plan.resumed ? plan.resumed->best : std::nullopt);
}

} // namespace

class training::implementation {
public:
  implementation(model_function model, std::shared_ptr<const data_split> data, training_options options,
                 std::optional<remote::serve_options> serve, std::shared_ptr<const time_source> time);
  ~implementation();

  void stop(const std::string& why) { send_anonymously(crew_->coordinator(), stop_training{why}); }
  void switch_policy(const std::string& policy, const std::string& why);
  void describe_elsewhere(training_report& r) const;
  void take_checkpoint();
  checkpoint_account checkpoints() const;
  std::optional<recording_account> recorded() const;
  bool wait_for(std::chrono::milliseconds span);
  training_progress progress() const;
  std::vector<std::string> name_waits(std::chrono::milliseconds span);
  std::vector<run_member> members(std::chrono::milliseconds span) const {
    return elsewhere_ ? elsewhere_->members(span) : std::vector<run_member>();
  }
  training_report report_so_far(std::chrono::milliseconds span) const;
  training_report report(const std::function<bool()>& stop_test);
  run_trace trace();
  std::span<const float> parameters();
  std::vector<float> predict(const named_arrays& samples);
  const parameter_layout& layout() const noexcept { return *plan_.layout; }
  std::uint64_t total_steps() const noexcept { return plan_.steps; }
  void observe(std::function<void(const run_event&)> observer) { watch_->observe(std::move(observer)); }
  std::string metrics_failure() const {
    const std::string of_lines = watch_->failure();
    return of_lines.empty() ? tested_.failure() : of_lines;
  }
  std::string recording_failure() const { return recorder_ ? recorder_->failure(crew_->started()) : ""; }
  const std::vector<std::string>& remarks() const noexcept { return remarks_; }

private:
  const training_options& options() const { return plan_.options; }
  ended_weights& weights();
  std::optional<std::uint64_t> written() const;
  recording_header header() const;
  void record();
  void note_computers();
  std::uint64_t room_for_other_files() const;
  watch_files files_to_watch() const;
  run_crew_options crew_options();
  void take_folder();
  void keep_checkpoints();
  void leave_what_came_later();
  void delay_steps(run_crew_options& options) const;
  void wait();
  std::vector<caf::actor> gather(const remote::serve_options& serve);
  void begin_files();
  void give_up_before_begin();

  const std::shared_ptr<const time_source> time_;
  const instant created_;                     ///< where timelines begin
  std::shared_ptr<const folder_lock> folder_; ///< of checkpoints, until nobody writes any more
  run_plan plan_;                             ///< as it was made, but for what is no longer needed
  best_weights tested_;                       ///< during the run
  ended_weights weights_{plan_, tested_};
  std::vector<std::string> remarks_; ///< on what the run goes on from

  mutable std::mutex mutex_; ///< guards the five members below, which actors write and the owner reads
  std::condition_variable changed_;
  training_progress progress_;
  std::optional<run_outcome> outcome_;
  instant ended_{0};
  std::vector<std::vector<std::string>*> waits_; ///< one for each caller of name_waits()
  checkpoint_account checkpoints_;
  std::atomic<bool> tests_end_{false}; ///< a test during the run, on its own thread, gives up

  mutable books_desk books_;
  run_home home_; ///< destroyed after the members below, which hold actors; waits for the last actor
  std::optional<run_recorder> recorder_;
  std::optional<run_watch> watch_;
  caf::actor checkpoint_writer_; ///< until the crew has it
  std::optional<run_crew> crew_;
  std::optional<remote::run_desk> desk_;           ///< of a run with workers in other processes
  std::optional<remote::worker_server> elsewhere_; ///< lets these in; ends before the crew
};

training::implementation::implementation(model_function model, std::shared_ptr<const data_split> data,
                                         training_options options, std::optional<remote::serve_options> serve,
                                         std::shared_ptr<const time_source> time)
    : time_(required(std::move(time), "time source")), created_(time_->now()),
      plan_(plan_on_threads(std::move(model), std::move(data), std::move(options), !serve, folder_)),
      tested_(best_weights_of(plan_)), home_(plan_.options.devices) {
  if (plan_.resumed) remarks_ = plan_.resumed->remarks;
  if (!plan_.options.record.empty()) require_recordable(plan_);
  if (!plan_.options.checkpoints.folder.empty())
    take_folder();
  else
    folder_.reset();
  std::vector<caf::actor> shards_elsewhere;
  try {
    if (!plan_.options.record.empty()) record(); // a full disk is known before anybody is waited for
    if (serve) shards_elsewhere = gather(*serve);
    plan_.recorded_before.reset(); // all of it is in the file again
    begin_files();
  } catch (...) {
    give_up_before_begin();
    throw;
  }
  run_crew_options crew = crew_options();
  crew.roles.workers = !serve;
  crew.shards_elsewhere = std::move(shards_elsewhere);
  if (elsewhere_) crew.blocks = elsewhere_->blocks();
  crew_.emplace(home_.system(), plan_, std::move(crew));
  checkpoint_writer_ = nullptr;
  if (elsewhere_)
    elsewhere_->begin({{crew_->shards(), crew_->feeder(), crew_->tracker(), crew_->coordinator()},
                       recorder_ ? recorder_->actor() : caf::actor(),
                       crew_->evaluator()},
                      time_);
  if (!desk_) return;
  desk_->begin();
  if (desk_->given_up()) stop("asked for from another process"); // after all had come
}

/// Returns the shards if they are in other processes.
std::vector<caf::actor> training::implementation::gather(const remote::serve_options& serve) {
  desk_.emplace(plan_.workers(),
                remote::run_desk::run{
                    serve.status,
                    [this](const std::string& policy, const std::string& why) { switch_policy(policy, why); },
                    [this](const std::string& why) { stop(why); }});
  elsewhere_.emplace(serve, plan_, home_.system(),
                     [this](const std::string& what, const std::string& argument) {
                       return desk_->answer(*elsewhere_, what, argument);
                     });
  remote::gathering all(*elsewhere_, serve, *time_, desk_->given_up());
  if (serve.on_listening) serve.on_listening(elsewhere_->address());
  all.wait_for_all();
  note_computers();
  return all.place_shards({!options().record.empty(), folder_ != nullptr});
}

/// The run is not refused any more, since its workers have come. What may still fail is the disk, so older
/// files are moved last.
void training::implementation::begin_files() {
  if (folder_) keep_checkpoints();
  watch_.emplace(home_.system(), files_to_watch());
  if (folder_) leave_what_came_later();
}

void training::implementation::give_up_before_begin() {
  if (elsewhere_) elsewhere_->end("the server has ended");
  const caf::actor recorder = recorder_ ? recorder_->actor() : caf::actor();
  const caf::actor observer = watch_ ? watch_->actor() : caf::actor();
  for (const caf::actor& a : {recorder, observer, checkpoint_writer_})
    if (a) send_anonymously(a, give_up{});
  home_.wait(); // for watchers too, who may be asking the server how many have joined
  elsewhere_.reset();
}

/// The actors use the members declared above them, so they must end first.
training::implementation::~implementation() {
  tests_end_ = true;
  if (elsewhere_) elsewhere_->end("the run was given up");
  crew_->give_up();
  home_.wait();
}

recording_header training::implementation::header() const {
  recording_header h{plan_.workers(), options().shards, facts_and_names(plan_), options().words,
                     plan_.seats() > plan_.workers() ? plan_.seats() : 0};
  const recording* const before = plan_.recorded_before.get();
  for (auto& [what, is] : h.facts) // a replay begins where the first process began
    if (before && what == first_weights_fact) is = told_fact(before->header.facts, what);
  if (before && options().elsewhere && options().elsewhere->empty()) // workers that come must be the same
    for (const std::string_view fact : {computers_fact, products_fact})
      if (tells(before->header.facts, fact))
        h.facts.emplace_back(fact, told_fact(before->header.facts, fact));
  return h;
}

void training::implementation::record() {
  const recording* const before = plan_.recorded_before.get();
  if (const auto& from = plan_.resumed; before && from)
    if (std::string left = leave_recording(from->from->path(), from->history(), before->name); !left.empty())
      remarks_.push_back(std::move(left));
  recorder_.emplace(home_.system(), options().record, header(), before,
                    recorded_run{time_, [this] { return room_for_other_files(); }});
}

/// Workers of other processes tell what they compute on when they come, and the recording has been begun
/// before.
void training::implementation::note_computers() {
  take_computers(plan_, elsewhere_->computers());
  if (!recorder_ || plan_.recorded_before) return;
  if (const recording_header again = header(); tells(again.facts, computers_fact))
    recorder_->begin_again(again);
}

/// What is still to be written when the disk is full: the weights, reports, and checkpoints until the first
/// of them is removed for the next one. Before there is one it counts as four arrays, such as those of Adam
/// and of a cure.
std::uint64_t training::implementation::room_for_other_files() const {
  constexpr std::uint64_t reports = std::uint64_t{1} << 18, most = 4;
  const std::uint64_t weights = layout().size() * sizeof(float);
  if (options().checkpoints.folder.empty()) return weights + reports;
  const checkpoint_account so_far = checkpoints();
  const std::uint64_t each = so_far.written > 0 ? so_far.bytes / so_far.written : 4 * weights;
  const std::uint64_t there = std::min<std::uint64_t>(so_far.written, options().checkpoints.keep);
  return weights + reports + std::min(most, options().checkpoints.keep - there + 1) * each;
}

std::optional<recording_account> training::implementation::recorded() const {
  return recorder_ ? std::optional(recorder_->account(crew_->started())) : std::nullopt;
}

void training::implementation::take_folder() {
  if (!folder_) folder_ = take_checkpoint_folder(options());
}

void training::implementation::keep_checkpoints() {
  const checkpoint_options& o = options().checkpoints;
  checkpoint_writer_ =
      spawn<checkpoint_writer, caf::detached>(home_.system(), checkpoint_writer_options{o.folder, o.keep});
}

void training::implementation::leave_what_came_later() {
  const auto& from = plan_.resumed;
  if (from && lies_in(options().checkpoints.folder, from->from->path()))
    for (const left_branch& left : {complete_left_branch(folder_of(from->from->path())),
                                    leave_later_branch(from->from->path(), from->history())})
      if (std::string told = in_words(left); !told.empty()) remarks_.push_back(std::move(told));
  tested_.begin();
}

watch_files training::implementation::files_to_watch() const {
  watch_files files{options().metrics, options().tensorboard, {time_->date()}};
  if (const auto& from = plan_.resumed) {
    files.begins.resumed_at = from->card.steps;
    files.begins.elapsed_before = from->elapsed();
    files.begins.steps_before = from->steps_before();
  }
  return files;
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
    watch_->tell(account);
    std::lock_guard guard(mutex_);
    checkpoints_ = account;
  };
  options.observer = watch_->actor();
  options.stop_tests = [this] { return tests_end_.load(); };
  if (this->options().keep == kept_weights::best)
    options.on_tested = [this, before = plan_.resumed ? plan_.resumed->steps_before() : 0](
                            evaluation_made test, std::span<const float> weights) {
      test.steps += before; // which checkpoints count as well
      tested_.offer(test, weights);
    };
  options.on_progress = [this](const training_progress& p) {
    std::lock_guard guard(mutex_);
    progress_ = p;
  };
  options.on_end = [this](run_outcome outcome) {
    std::lock_guard guard(mutex_);
    ended_ = time_->now();
    outcome_ = std::move(outcome);
    changed_.notify_all();
    books_.close();
  };
  options.on_books = [this](std::uint64_t request, const run_outcome& books) { books_.take(request, books); };
  if (!this->options().delays.empty()) delay_steps(options);
  options.on_wait = [this](const wait_named& w) {
    watch_->tell(w);
    std::lock_guard guard(mutex_);
    for (auto* waits : waits_) waits->push_back(in_words(w));
    changed_.notify_all();
  };
  return options;
}

void training::implementation::delay_steps(run_crew_options& options) const {
  const auto law = std::make_shared<const delay_spec>(this->options().delays, plan_.seats());
  options.runner = [law, time = time_, begun = created_, seed = this->options().delays_seed](
                       rank worker, std::shared_ptr<step_runner> own) -> std::shared_ptr<step_runner> {
    return std::make_shared<delayed_runner>(
        std::move(own), step_delays{law->law_of(worker, seed), time, timer_of_process(), begun});
  };
}

void training::implementation::switch_policy(const std::string& policy, const std::string& why) {
  const run_place place = !elsewhere_                  ? run_place::one_process
                          : elsewhere_->holds_shards() ? run_place::workers_elsewhere
                                                       : run_place::shards_elsewhere;
  require_asked_switch(plan_, place, crew_->store() != nullptr, policy);
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
  training_progress p = outcome_ ? final_progress(*outcome_, ended_ - crew_->started()) : progress_;
  if (!plan_.resumed) return p;
  const worker_share done = outcome_ ? plan_.resumed->done() : worker_share{};
  p.before = plan_.resumed->card.steps;
  p.steps += p.before - std::min(p.before, done.steps);
  p.samples -= std::min(p.samples, done.samples);
  return p;
}

std::vector<std::string> training::implementation::name_waits(std::chrono::milliseconds span) {
  std::vector<std::string> waits;
  if (elsewhere_)
    for (const wait_named& w : elsewhere_->waits()) waits.push_back(in_words(w));
  std::unique_lock lock(mutex_);
  waits_.push_back(&waits);
  send_anonymously(crew_->coordinator(), mailgrad::name_waits{});
  changed_.wait_for(lock, span, [this] { return outcome_.has_value(); });
  std::erase(waits_, &waits);
  return waits;
}

std::vector<float> training::implementation::predict(const named_arrays& samples) {
  if (parameters().empty()) throw std::runtime_error("predict: a shard was lost, and its weights with it");
  return mailgrad::predict(plan_.model, plan_.request, layout(), parameters(), samples);
}

/// With the last ones known.
ended_weights& training::implementation::weights() {
  wait();
  weights_.take(*outcome_, crew_->store());
  return weights_;
}

std::span<const float> training::implementation::parameters() {
  weights().choose({});
  return weights_.chosen();
}

std::optional<std::uint64_t> training::implementation::written() const {
  const hogwild_store* store = crew_->store();
  return store ? std::optional(store->version()) : std::nullopt;
}

/// Of a run whose workers are in other processes: what no plan knows.
void training::implementation::describe_elsewhere(training_report& r) const {
  if (!elsewhere_) return;
  r.wire = to_string(elsewhere_->wire());
  r.devices = elsewhere_->devices(r.workers);
}

training_report training::implementation::report_so_far(std::chrono::milliseconds span) const {
  const run_outcome books = books_.ask(crew_->coordinator(), span).value_or(nothing_told(plan_.workers()));
  std::unique_lock lock(mutex_);
  const bool ended = outcome_.has_value();
  training_progress told = progress_; // of this process alone
  if (plan_.resumed) {
    const worker_share done = plan_.resumed->done();
    told.steps += done.steps;
    told.samples += done.samples;
  }
  training_report r =
      ended ? report_of(*outcome_, written()) : mailgrad::report_so_far(books, told, written());
  describe(r, plan_, (ended ? ended_ : time_->now()) - crew_->started(),
           ended ? outcome_->checkpoints : checkpoints_);
  lock.unlock();
  describe_elsewhere(r);
  r.recording = recorded();
  watch_->add_curve(r);
  return r;
}

training_report training::implementation::report(const std::function<bool()>& stop_test) {
  wait();
  if (elsewhere_) elsewhere_->end("the run has ended");
  tests_end_ = true;
  training_report r = report_of(*outcome_, written());
  describe(r, plan_, ended_ - crew_->started(), outcome_->checkpoints);
  describe_elsewhere(r);
  if (const auto last = weights().last(); !last.empty()) r.parameters_sha256 = sha256(std::as_bytes(last));
  if (recorder_) {
    recorder_->finish(crew_->feeder(), *outcome_, r);
    r.recording = recorded();
  }
  weights_.choose(stop_test);
  if (const auto& best = weights_.best())
    r.best = best_test{best->test.steps, best->test.loss, best->test.held_out,
                       sha256(std::as_bytes(std::span(best->weights)))};
  test_trained(r, plan_, parameters(), stop_test);
  watch_->finish(crew_->tracker(), r);
  return r;
}

run_trace training::implementation::trace() {
  wait();
  return trace_of(*outcome_, created_, ended_);
}

training::training(model_function model, std::shared_ptr<const data_split> data, training_options options,
                   std::shared_ptr<const time_source> time)
    : self_(std::make_unique<implementation>(std::move(model), std::move(data), std::move(options),
                                             std::nullopt, std::move(time))) {}
training::training(model_function model, std::shared_ptr<const data_split> data, training_options options,
                   remote::serve_options serve, std::shared_ptr<const time_source> time)
    : self_(std::make_unique<implementation>(
          std::move(model), std::move(data),
          for_workers_elsewhere(std::move(options), serve.workers, serve.devices), serve, std::move(time))) {}
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
const std::vector<std::string>& training::remarks() const noexcept { return self_->remarks(); }
training_report training::report_so_far(std::chrono::milliseconds span) const {
  return self_->report_so_far(span);
}
void training::take_checkpoint() { self_->take_checkpoint(); }
checkpoint_account training::checkpoints() const { return self_->checkpoints(); }
std::optional<recording_account> training::recorded() const { return self_->recorded(); }
bool training::wait_for(std::chrono::milliseconds span) { return self_->wait_for(span); }
training_progress training::progress() const { return self_->progress(); }
std::vector<std::string> training::name_waits(std::chrono::milliseconds span) {
  return self_->name_waits(span);
}
std::vector<run_member> training::members(std::chrono::milliseconds span) const {
  return self_->members(span);
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
