#include <mailgrad/actors/training.hpp>

#include <mailgrad/actors/remote/worker_server.hpp>
#include <mailgrad/actors/run/evaluator.hpp>
#include <mailgrad/actors/run/planned_run.hpp>
#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/run/run_recorder.hpp>
#include <mailgrad/actors/run/run_state.hpp>
#include <mailgrad/actors/run/run_watch.hpp>
#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/engine/plan/resume.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/worker/delayed_runner.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/kernels/cuda/chain_kernels.hpp>

namespace mailgrad {

using messaging::send_anonymously;

namespace {

/// For which the network is asked when each member was heard.
constexpr std::chrono::milliseconds time_to_ask{250};
constexpr std::chrono::milliseconds look{200}; ///< so often the owner is asked whether it goes on
constexpr const char* asked_elsewhere = "asked for from another process";

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

/// What a run owns: its plan, its actors, its files, and what these have told.
struct training::implementation {
  implementation(model_function model, std::shared_ptr<const data_split> data, training_options options,
                 std::optional<remote::serve_options> serve, std::shared_ptr<const time_source> time)
      : time_(required(std::move(time), "time source")), created_(time_->now()),
        plan_(plan_on_threads(std::move(model), std::move(data), std::move(options), !serve, folder_)),
        tested_(best_weights_of(plan_)), home_(plan_.options.devices) {
    if (plan_.resumed) remarks_ = plan_.resumed->remarks;
    if (!plan_.options.replay) std::ranges::move(update_remarks(plan_), std::back_inserter(remarks_));
    if (!plan_.options.record.empty()) require_recordable(plan_);
    if (plan_.options.checkpoints.folder.empty())
      folder_.reset();
    else if (!folder_)
      folder_ = take_checkpoint_folder(plan_.options);
    try {
      if (!plan_.options.record.empty()) record(); // a full disk is known before anybody is waited for
      begin_crew(serve ? gather(*serve) : std::vector<caf::actor>());
    } catch (...) {
      give_up_before_begin();
      throw;
    }
    if (elsewhere_)
      elsewhere_->begin({{crew_->shards(), crew_->feeder(), crew_->tracker(), crew_->coordinator()},
                         recorder_ ? recorder_->actor() : caf::actor(),
                         crew_->evaluator(),
                         watch_->actor()},
                        time_);
    begun_ = true;
    if (given_up_) stop(asked_elsewhere); // after all had come
  }

  /// The actors use the members declared above them, so they must end first.
  ~implementation() {
    tests_end_ = true;
    if (elsewhere_) elsewhere_->end("the run was given up");
    crew_->give_up();
    home_.wait();
  }

  void give_up_before_begin() {
    if (elsewhere_) elsewhere_->end("the server has ended");
    const caf::actor recorder = recorder_ ? recorder_->actor() : caf::actor();
    const caf::actor observer = watch_ ? watch_->actor() : caf::actor();
    for (const caf::actor& a : {recorder, observer, checkpoint_writer_})
      if (a) send_anonymously(a, give_up{});
    home_.wait(); // for watchers too, who may be asking the server how many have joined
    elsewhere_.reset();
  }

  void record() {
    const recording* const before = plan_.recorded_before.get();
    if (const auto& from = plan_.resumed; before && from)
      if (std::string left = leave_recording(from->from->path(), from->history(), before->name);
          !left.empty())
        remarks_.push_back(std::move(left));
    recorder_.emplace(
        home_.system(), plan_.options.record, recording_header_of(plan_), before,
        recorded_run{time_, [this] { return room_beside_recording(plan_, state_.checkpoints()); }});
  }

  /// Waits for all who are to begin a run over processes. Returns its shards if they are in other processes.
  std::vector<caf::actor> gather(const remote::serve_options& serve) {
    elsewhere_.emplace(serve, plan_, home_.system(),
                       [this, status = serve.status](const std::string& what, const std::string& argument) {
                         return begun_ ? answer(status, what, argument) : answer_before_begin(what);
                       });
    const instant since = time_->now();
    if (serve.on_listening) serve.on_listening(elsewhere_->address());
    while (!elsewhere_->wait_for(look))
      require_patience(serve, since, elsewhere_->attendance() + " had joined");
    note_computers();
    if (serve.shard_hosts == 0) return {};
    std::vector<caf::actor> shards =
        elsewhere_->place_shards({!plan_.options.record.empty(), folder_ != nullptr});
    while (!elsewhere_->wait_for_shards(look))
      require_patience(serve, since, "the parameter hosts did not have their shards");
    return shards;
  }

  void require_patience(const remote::serve_options& serve, instant since, const std::string& what) {
    if (given_up_)
      throw remote::called_off("ended before the run had begun, as another process asked: " + what);
    if (serve.go_on_waiting && !serve.go_on_waiting(elsewhere_->joined()))
      throw std::runtime_error("given up: " + what);
    if (serve.patience.count() == 0 || time_->now() - since < serve.patience) return;
    const std::string why =
        fmt::format("given up: {} within {} s", what, std::chrono::duration<double>(serve.patience).count());
    elsewhere_->note_failure(why); // for those who had come
    throw std::runtime_error(why);
  }

  /// On the thread of a watcher, as answer().
  remote::run_answer answer_before_begin(const std::string& what) {
    const std::uint32_t workers = plan_.workers();
    if (what == "status")
      return {fmt::format(
          R"({{"waiting": true, "workers": {}, "joined": {}, "attendance": "{}", "members": {}}})", workers,
          elsewhere_->joined(), elsewhere_->attendance(), to_json(elsewhere_->members(time_to_ask)))};
    if (what != "stop")
      throw std::invalid_argument(
          fmt::format("the run has not begun: it waits for {} worker{}", workers, workers == 1 ? "" : "s"));
    return {"the run will not begin", [this] { given_up_ = true; }};
  }

  remote::run_answer answer(const std::function<std::string()>& status, const std::string& what,
                            const std::string& argument) {
    if (what == "status") return {status ? status() : "{}"};
    const bool has_workers = elsewhere_->joined() > 0;
    if (what == "switch") {
      require_loaded(argument);
      switch_policy(argument, asked_elsewhere);
      return {"policy " + argument +
              (has_workers ? " begins when every worker has finished its step"
                           : " begins when a worker has come: the run has none")};
    }
    if (what == "stop")
      return {has_workers ? "the run ends when every worker has finished its step"
                          : "the run ends now: it has no workers",
              [this, why = argument.empty() ? asked_elsewhere : argument] { stop(why); }};
    throw std::invalid_argument(fmt::format("expected status, switch or stop, found '{}'", what));
  }

  /// Workers of other processes tell what they compute on when they come, and the recording has been begun
  /// before.
  void note_computers() {
    take_computers(plan_, elsewhere_->computers());
    if (!recorder_ || plan_.recorded_before) return;
    if (const recording_header again = recording_header_of(plan_); tells(again.facts, computers_fact))
      recorder_->begin_again(again);
  }

  void begin_crew(std::vector<caf::actor> shards_elsewhere) {
    watch_.emplace(home_.system());
    state_.tell_policy(plan_.resumed ? plan_.resumed->schedule.policy : plan_.first_policy().text());
    watch_->observe([this](const run_event& x) {
      if (const auto* begun = std::get_if<policy_switch>(&x)) state_.tell_policy(begun->to);
    });
    if (const checkpoint_options& o = plan_.options.checkpoints; folder_)
      checkpoint_writer_ = messaging::spawn_apart<checkpoint_writer>(
          home_.system(), checkpoint_writer_options{o.folder, o.keep});
    run_crew_options crew = crew_options();
    crew.roles.workers = !elsewhere_;
    // The run is not refused any more, since its workers have come, and all have their memory. What may still
    // fail is the disk, so older files are moved last.
    crew.on_prepared = [this, here = shards_elsewhere.empty()](std::span<const caf::actor> shards) {
      if (here && has_shard_on_gpu(plan_.options)) wait_until_prepared(home_.system(), shards);
      watch_->open(files_to_watch());
      if (folder_) leave_what_came_later();
    };
    crew.shards_elsewhere = std::move(shards_elsewhere);
    if (elsewhere_) {
      crew.blocks = elsewhere_->blocks();
      crew.awaits = elsewhere_->awaits();
      crew.shares_credit = elsewhere_->shares_credit();
    }
    plan_.recorded_before.reset(); // all of it is in the file again
    crew_.emplace(home_.system(), plan_, std::move(crew));
    checkpoint_writer_ = nullptr;
  }

  run_crew_options crew_options() {
    run_crew_options crew{time_, created_};
    if (recorder_) crew.recorder = recorder_->actor();
    crew.checkpoint_writer = checkpoint_writer_;
    crew.on_checkpoint = [this](const checkpoint_account& account) { watch_and_keep(account); };
    crew.observer = watch_->actor();
    crew.stop_tests = [this] { return tests_end_.load(); };
    if (plan_.options.keep == kept_weights::best)
      crew.on_tested = [this, before = plan_.resumed ? plan_.resumed->steps_before() : 0](
                           evaluation_made test, std::span<const float> weights) {
        test.steps += before; // which checkpoints count as well
        tested_.offer(test, weights);
      };
    crew.on_progress = [this](const training_progress& p) { state_.tell(p); };
    crew.on_failure = [this](const std::string& why) {
      if (elsewhere_) elsewhere_->note_failure(why);
    };
    crew.on_end = [this](run_outcome outcome) {
      state_.end(std::move(outcome));
      books_.close();
    };
    crew.on_books = [this](std::uint64_t request, const run_outcome& books) { books_.take(request, books); };
    if (!plan_.options.delays.empty()) delay_steps(crew);
    crew.on_wait = [this](const wait_reason& w) { watch_and_keep(w); };
    return crew;
  }

  template <class Told>
  void watch_and_keep(const Told& what) {
    watch_->tell(what);
    state_.tell(what);
  }

  void delay_steps(run_crew_options& crew) const {
    const auto law = std::make_shared<const delay_spec>(plan_.options.delays, plan_.slots());
    crew.runner = [law, time = time_, begun = created_, seed = plan_.options.delays_seed](
                      rank worker, std::shared_ptr<step_runner> own) -> std::shared_ptr<step_runner> {
      return std::make_shared<delayed_runner>(
          std::move(own), step_delays{law->law_of(worker, seed), time, timer_of_process(), begun});
    };
  }

  watch_files files_to_watch() const {
    watch_files files{plan_.options.metrics, plan_.options.tensorboard, {time_->date()}};
    files.begins.options = options_of(plan_);
    files.begins.policy = plan_.first_policy().text();
    if (const auto& from = plan_.resumed) {
      files.begins.resumed_at = from->card.steps;
      files.begins.elapsed_before = from->elapsed();
      files.begins.steps_before = from->steps_before();
      files.begins.switches = from->schedule.done.size();
    }
    return files;
  }

  void leave_what_came_later() {
    const auto& from = plan_.resumed;
    if (from && lies_in(plan_.options.checkpoints.folder, from->from->path()))
      for (const left_branch& left : {complete_left_branch(folder_of(from->from->path())),
                                      leave_later_branch(from->from->path(), from->history())})
        if (std::string told = in_words(left); !told.empty()) remarks_.push_back(std::move(told));
    tested_.begin();
  }

  void stop(const std::string& why) { send_anonymously(crew_->coordinator(), stop_training{why}); }

  void switch_policy(const std::string& policy, const std::string& why) {
    const run_place place = !elsewhere_                  ? run_place::one_process
                            : elsewhere_->holds_shards() ? run_place::workers_elsewhere
                                                         : run_place::shards_elsewhere;
    require_asked_switch(plan_, place, crew_->store() != nullptr, policy);
    if (state_.outcome())
      throw std::invalid_argument("policy '" + policy + "': the run has ended, and switches no more");
    const std::string wanted = policy_spec(policy, plan_.slots()).text();
    if (state_.policy() == wanted)
      throw std::invalid_argument("policy '" + policy + "': the run is under " + wanted + " already");
    state_.tell_policy(wanted);
    send_anonymously(crew_->coordinator(), request_switch{policy, why});
  }

  /// The evaluator's memory of a GPU goes with it, which the last tests may need.
  void end_tests() {
    tests_end_ = true;
    if (!crew_->evaluator()) return;
    send_anonymously(crew_->evaluator(), mailgrad::give_up{});
    messaging::wait_for_end(crew_->evaluator());
  }

  /// With the last ones known.
  ended_weights& ended() {
    weights_.take(state_.wait(), crew_->store());
    end_tests();
    return weights_;
  }

  std::optional<std::uint64_t> written() const {
    const hogwild_store* store = crew_->store();
    return store ? std::optional(store->version()) : std::nullopt;
  }
  instant elapsed() const { return state_.ended_or_now() - crew_->started(); }
  std::vector<run_member> members(std::chrono::milliseconds span) const {
    return elsewhere_ ? elsewhere_->members(span) : std::vector<run_member>();
  }

  /// Says of the run what its actors do not tell.
  void complete(training_report& r, const checkpoint_account& checkpoints,
                std::chrono::milliseconds to_ask) const {
    describe(r, plan_, elapsed(), checkpoints);
    if (elsewhere_) {
      r.wire = to_string(elsewhere_->wire());
      r.devices = elsewhere_->devices(r.workers);
    }
    describe_gpus(r);
    date_switches(r, plan_, crew_->started());
    r.members = members(to_ask);
  }

  void describe_gpus(training_report& r) const {
    const auto& devices = plan_.options.devices;
    if (elsewhere_ || std::ranges::find(devices, device_kind::cuda, &device::kind) == devices.end()) return;
    const cuda::queued_steps now = cuda::count_queued_steps();
    const cuda::generated_kernels kernels = cuda::count_generated_kernels();
    r.gpus = gpu_figures{now.graphs - queued_before_.graphs, now.launches - queued_before_.launches,
                         kernels.there, kernels.why_none};
  }

  const std::shared_ptr<const time_source> time_;
  const instant created_;                                               ///< where timelines begin
  const cuda::queued_steps queued_before_ = cuda::count_queued_steps(); ///< by other runs of the process
  std::shared_ptr<const folder_lock> folder_; ///< of checkpoints, until nobody writes any more
  run_plan plan_;                             ///< as it was made, but for what is no longer needed
  best_weights tested_;                       ///< during the run
  ended_weights weights_{plan_, tested_};
  std::vector<std::string> remarks_; ///< on what the run goes on from, and on its policies
  run_state state_{time_};
  std::atomic<bool> tests_end_{false}; ///< a test during the run, on its own thread, gives up

  mutable status_cache books_;
  run_home home_; ///< destroyed after the members below, which hold actors; waits for the last actor
  std::optional<run_recorder> recorder_;
  std::optional<run_watch> watch_;
  caf::actor checkpoint_writer_; ///< until the crew has it
  std::optional<run_crew> crew_;
  std::atomic<bool> begun_{false};                 ///< watchers may ask before
  std::atomic<bool> given_up_{false};              ///< by a watcher, before the run had begun
  std::optional<remote::worker_server> elsewhere_; ///< lets these in; ends before the crew
};

training::training(model_function model, shared_data data, training_options options,
                   std::shared_ptr<const time_source> time)
    : self_(std::make_unique<implementation>(std::move(model), std::move(data), std::move(options),
                                             std::nullopt, std::move(time))) {}
training::training(model_function model, shared_data data, training_options options,
                   remote::serve_options serve, std::shared_ptr<const time_source> time)
    : self_(std::make_unique<implementation>(
          std::move(model), std::move(data),
          for_workers_elsewhere(std::move(options), serve.workers, serve.devices), serve, std::move(time))) {}
training::~training() = default;

void training::stop(const std::string& why) { self_->stop(why); }
void training::expect_nobody() { send_anonymously(self_->crew_->coordinator(), wait_over{}); }
void training::switch_policy(const std::string& policy, const std::string& why) {
  self_->switch_policy(policy, why);
}
void training::observe(std::function<void(const run_event&)> observer) {
  self_->watch_->observe(std::move(observer));
}
std::string training::metrics_failure() const {
  const std::string of_lines = self_->watch_->failure();
  return of_lines.empty() ? self_->tested_.failure() : of_lines;
}
std::string training::recording_failure() const {
  return self_->recorder_ ? self_->recorder_->failure(self_->crew_->started()) : "";
}
const std::vector<std::string>& training::remarks() const noexcept { return self_->remarks_; }
checkpoint_account training::checkpoints() const { return self_->state_.checkpoints(); }
std::optional<recording_account> training::recorded() const {
  const auto& recorder = self_->recorder_;
  return recorder ? std::optional(recorder->account(self_->crew_->started())) : std::nullopt;
}
bool training::wait_for(std::chrono::milliseconds span) { return self_->state_.wait_for(span); }
std::vector<run_member> training::members(std::chrono::milliseconds span) const {
  return self_->members(span);
}
std::uint64_t training::total_steps() const noexcept { return self_->plan_.steps; }
std::span<const float> training::parameters() {
  self_->ended().choose({});
  return self_->weights_.chosen();
}
std::vector<named_weights> training::weights() {
  const std::span<const float> all = parameters();
  return all.empty() ? std::vector<named_weights>() : weights_by_name(layout(), all);
}
const parameter_layout& training::layout() const noexcept { return *self_->plan_.layout; }

void training::take_checkpoint() {
  if (self_->plan_.options.checkpoints.folder.empty())
    throw std::invalid_argument("checkpoint: the run has no folder for checkpoints");
  send_anonymously(self_->crew_->coordinator(), request_checkpoint{});
}

training_progress training::progress() const {
  const run_outcome* const outcome = self_->state_.outcome();
  training_progress p = outcome ? final_progress(*outcome, self_->elapsed()) : self_->state_.progress();
  if (!self_->plan_.resumed) return p;
  const worker_share done = outcome ? self_->plan_.resumed->done() : worker_share{};
  p.before = self_->plan_.resumed->card.steps;
  p.steps += p.before - std::min(p.before, done.steps);
  p.samples -= std::min(p.samples, done.samples);
  return p;
}

std::vector<std::string> training::list_wait_reasons(std::chrono::milliseconds span) {
  std::vector<std::string> waits;
  if (self_->elsewhere_)
    for (const wait_reason& w : self_->elsewhere_->waits()) waits.push_back(in_words(w));
  const auto ask = [this] { send_anonymously(self_->crew_->coordinator(), mailgrad::list_wait_reasons{}); };
  std::ranges::move(self_->state_.reported_waits(ask, span), std::back_inserter(waits));
  return waits;
}

std::vector<float> training::predict(const named_arrays& samples) {
  if (parameters().empty()) throw std::runtime_error("predict: a shard was lost, and its weights with it");
  return mailgrad::predict(self_->plan_.model, self_->plan_.request, layout(), parameters(), samples);
}

training_report training::report_so_far(std::chrono::milliseconds span) const {
  const std::uint32_t shards = self_->plan_.has_shards() ? self_->plan_.options.shards : 0;
  const run_outcome nothing = nothing_told(self_->plan_.workers(), shards);
  run_outcome books = self_->books_.ask(self_->crew_->coordinator(), span).value_or(nothing);
  if (self_->plan_.options.parameter_actor)
    books.late = nothing.late; // of another author, who tells at the end
  const run_outcome* const outcome = self_->state_.outcome();
  training_progress told = self_->state_.progress(); // of this process alone
  if (self_->plan_.resumed) {
    const worker_share done = self_->plan_.resumed->done();
    told.steps += done.steps;
    told.samples += done.samples;
  }
  training_report r = outcome ? report_of(*outcome, self_->written())
                              : mailgrad::report_so_far(books, told, self_->written());
  self_->complete(r, outcome ? outcome->checkpoints : checkpoints(), std::min(span, time_to_ask));
  r.recording = recorded();
  self_->watch_->add_curve(r);
  return r;
}

training_report training::report(const std::function<bool()>& stop_test) {
  const run_outcome& outcome = self_->state_.wait();
  if (self_->elsewhere_) self_->elsewhere_->end("the run has ended", std::string(remote::work_is_done));
  self_->end_tests();
  training_report r = report_of(outcome, self_->written());
  self_->complete(r, outcome.checkpoints, {});
  if (const auto last = self_->ended().last(); !last.empty())
    r.parameters_sha256 = sha256(std::as_bytes(last));
  if (self_->recorder_) {
    self_->recorder_->finish(self_->crew_->feeder(), outcome, r);
    r.recording = recorded();
  }
  self_->weights_.choose(stop_test);
  if (const auto& best = self_->weights_.best())
    r.best = best_test{best->test.steps, best->test.loss, best->test.held_out,
                       sha256(std::as_bytes(std::span(best->weights))), self_->weights_.why_untested()};
  test_trained(r, self_->plan_, parameters(), stop_test);
  self_->watch_->finish(self_->crew_->tracker(), r);
  return r;
}

run_trace training::trace() {
  const run_outcome& outcome = self_->state_.wait();
  return trace_of(outcome, self_->created_, self_->state_.ended_or_now());
}

training_report train(model_function model, shared_data data, training_options options,
                      const std::function<void(const training_progress&)>& observe) {
  training run(std::move(model), std::move(data), std::move(options));
  while (!run.wait_for(std::chrono::milliseconds{250}))
    if (observe) observe(run.progress());
  return run.report();
}

training serve(model_function model, shared_data data, training_options options, const std::string& address) {
  remote::serve_options listen{.listen = address, .workers = std::max(options.workers, 1U)};
  return {std::move(model), std::move(data), std::move(options), std::move(listen)};
}

} // namespace mailgrad
