#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/plan/run_tester.hpp>
#include <mailgrad/engine/worker/local_samples.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/lab/virtual_run.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad::lab {

using messaging::on, messaging::send, messaging::send_anonymously, messaging::spawn;

namespace {

/// Reads the shards of a run in virtual time, between two events.
///
///     idle --read_shard--> asking --shard_read of every shard--> idle
/// Guarantees  if every shard lives, `take` has had the answer of each once no message is under way.
class shard_reader {
public:
  static constexpr const char* name = "mailgrad.shard-reader";

  shard_reader(caf::event_based_actor* self, std::vector<caf::actor> shards,
               std::function<void(const shard_read&)> take)
      : self_(self), shards_(std::move(shards)), take_(std::move(take)) {}

  caf::behavior make_behavior() {
    return {
        on(self_,
           [this](const read_shard&) {
             for (const caf::actor& shard : shards_) send(self_, shard, read_shard{});
           }),
        on(self_, [this](const shard_read& x) { take_(x); }),
        on(self_, [this](const give_up&) { self_->quit(); }),
    };
  }

private:
  caf::event_based_actor* self_;
  std::vector<caf::actor> shards_;
  std::function<void(const shard_read&)> take_;
};

/// A runner whose worker trains on samples of its own: worker r of M has the samples r, r + M, and so on.
/// Another runner computes the steps. A batch keeps its number and its size, and its samples are taken from
/// those of the worker, in turns.
/// Threads  as those of the other runner.
class local_sample_runner final : public step_runner {
public:
  /// Errors  std::invalid_argument if there are fewer samples than workers.
  local_sample_runner(std::shared_ptr<step_runner> to, std::shared_ptr<const dataset> samples, rank worker,
                      std::uint32_t workers, std::size_t batch, std::size_t nonzeros)
      : to_(std::move(to)), batches_(samples, batch, nonzeros) {
    for (std::size_t s = worker.value; s < samples->size(); s += workers)
      own_.push_back(static_cast<std::uint32_t>(s));
    if (own_.empty())
      throw std::invalid_argument(fmt::format(
          "lab: {} samples are too few for each of {} workers to have some", samples->size(), workers));
  }

  std::shared_ptr<gradient> make_gradient() const override { return to_->make_gradient(); }
  void on_end(std::function<void()> notice) override { to_->on_end(std::move(notice)); }
  void use_host_weights(std::uint32_t shard, const float* values,
                        std::shared_ptr<const void> owner) override {
    to_->use_host_weights(shard, values, std::move(owner));
  }
  double squared_norm(const gradient& g) const override { return to_->squared_norm(g); }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override {
    require_step(inputs.get(), out.get());
    next_.resize(inputs->size);
    for (std::size_t i = 0; i < next_.size(); ++i)
      next_[i] = own_[(inputs->number * inputs->size + i) % own_.size()];
    to_->use_racing_weights(racing());
    return to_->begin_step(batches_.cut(inputs->number, inputs->epoch, next_), std::move(out));
  }
  bool computes_at_end() const noexcept override { return to_->computes_at_end(); }
  void skip_step() override { to_->skip_step(); }
  float end_step() override { return to_->end_step(); }
  std::string waits_for() const override { return to_->waits_for(); }

private:
  std::shared_ptr<step_runner> to_;
  std::vector<std::uint32_t> own_; ///< numbers of samples
  local_batches batches_;
  std::vector<std::uint32_t> next_; ///< of the batch that is cut
};

void refuse(bool asked_for, std::string_view what) {
  if (asked_for) throw std::invalid_argument(fmt::format("lab: a run in virtual time {}", what));
}

run_plan virtual_plan(model_function model, std::shared_ptr<const data_split> data, training_options options,
                      std::uint32_t workers) {
  run_plan plan = plan_run(std::move(model), std::move(data), virtual_options(std::move(options), workers));
  plan.run = {1};          // the same in each run with the same options
  plan.update_helpers = 0; // there are no threads to help
  return plan;
}

bool has_links(const virtual_run_options& lab) noexcept {
  return lab.links.any() || is_lossy(lab.wire.format);
}

void require_links(const virtual_run_options& lab, const run_plan& plan) {
  if (lab.links.any())
    for (std::uint32_t r = 0; r < lab.workers; ++r) times_of(lab.links, {r}, lab.workers);
  if (has_links(lab) && has_hogwild(plan.policies))
    throw std::invalid_argument("lab: under hogwild workers write to the weights themselves; leave latency, "
                                "bandwidth and wire out, or take another policy");
}

/// That of the policy of a run whose workers are interrupted.
/// Errors  std::invalid_argument: they cannot be.
std::uint64_t limit_of_interruptions(const virtual_run_options& lab, const run_plan& plan) {
  const auto refuse = [](bool found, std::string_view why) {
    if (found) throw std::invalid_argument(fmt::format("lab: workers cannot be interrupted {}", why));
  };
  refuse(plan.policies.size() > 1, "in a run that switches its policy");
  refuse(!plan.first_policy().traits().has_most_stale,
         fmt::format("under {}, which discards no gradient as too stale", plan.first_policy().text()));
  refuse(plan.first_policy().traits().has_rounds,
         fmt::format("under {}, which gives a worker its old weights again", plan.first_policy().text()));
  refuse(plan.options.shards > 1, "with several shards");
  refuse(has_links(lab), "with latency, bandwidth or a lossy wire");
  refuse(plan.options.local_steps > 0, "between local steps");
  refuse(plan.options.sample_gap > 0, "while gradients are sampled; leave sample-gap out");
  refuse(lab.computes_discarded, "if gradients that are discarded are computed");
  return *plan.first_policy().make()->most_stale();
}

/// By steps, as a second of virtual time is nothing to wait for; about a thousand steps of all together.
notice_pace virtual_pace(std::size_t tellers) {
  return {instant::max(), std::max<std::uint64_t>(8, 1000 / std::max<std::size_t>(1, tellers))};
}

/// A timer that does what a function says.
class timer_by final : public step_timer {
public:
  explicit timer_by(std::function<void(instant, notice)> at) : at_(std::move(at)) {}
  void at(instant when, notice tell) override { at_(when, std::move(tell)); }

private:
  std::function<void(instant, notice)> at_;
};

} // namespace

training_options virtual_options(training_options asked, std::uint32_t workers) {
  refuse(workers == 0, "needs a worker");
  refuse(!asked.parameters.empty(), "keeps its weights on the host; leave parameters out");
  refuse(asked.slots > 0 || asked.waits_for_workers.count() > 0, "has all its workers from the start");
  refuse(asked.all_reduce, "has no ranks of MPI");
  refuse(!asked.record.empty() || asked.replay, "is repeated by its seeds; leave the recording out");
  refuse(!asked.checkpoints.folder.empty() || asked.resume, "keeps no checkpoints");
  refuse(!asked.metrics.empty() || !asked.tensorboard.empty(), "writes no files while it goes on");
  refuse(!asked.evaluate_every.never() || !asked.stop_when.empty() || asked.patience > 0 ||
             asked.keep != kept_weights::last,
         "tests its weights at its end only");
  if (asked.delays.empty()) asked.delays = "constant:1";
  asked.devices.assign(workers, {device_kind::cpu, 0});
  asked.workers = 0; // as many as devices
  return asked;
}

virtual_run::virtual_run(model_function model, std::shared_ptr<const data_split> data,
                         training_options options, virtual_run_options lab)
    : lab_(std::move(lab)),
      plan_(virtual_plan(std::move(model), std::move(data), std::move(options), lab_.workers)),
      delays_(plan_.options.delays, lab_.workers),
      beside_steps_(std::make_shared<timer_by>([this](instant when, step_timer::notice tell) {
        clock_->at(when, [this, tell = std::move(tell)] {
          ++passed_;
          tell();
        });
      })) {
  require_links(lab_, plan_);
  if (lab_.interrupts) late_.emplace(clock_, limit_of_interruptions(lab_, plan_));
  if (lab_.on_read && plan_.options.shards > 1)
    throw std::invalid_argument("lab: weights can be observed in a run with one shard only");
  crew_.emplace(system_.actors(), plan_, crew_options());
  clock_->foresee(
      [this](virtual_clock::owner whose, virtual_clock::foresight before) { fetch_ahead({whose}, before); });
  const std::vector<caf::actor>& shards = crew_->shards();
  if (late_)
    versions_ = spawn<shard_reader>(system_.actors(), std::vector{shards.front()},
                                    [this](const shard_read& x) { version_ = x.version.value; });
  if (tests())
    reader_ = spawn<shard_reader>(system_.actors(), shards, [this](const shard_read& x) { take_weights(x); });
}

/// Events and runners hold actors, which must be gone before their system.
virtual_run::~virtual_run() {
  crew_->give_up();
  if (reader_) send_anonymously(reader_, give_up{});
  if (versions_) send_anonymously(versions_, give_up{});
  for (const caf::actor& link : links_) send_anonymously(link, give_up{});
  system_.run();
  clock_->clear();
  simulated_.clear();
  crew_.reset();
  reader_ = nullptr;
  versions_ = nullptr;
  late_.reset();
  links_.clear();
  system_.run();
}

run_crew_options virtual_run::crew_options() {
  run_crew_options options{clock_};
  options.timer = beside_steps_;
  options.coordinator_has_thread = false;
  options.on_progress = lab_.on_progress;
  options.workers_cut_batches = true;
  options.pace = virtual_pace;
  options.on_end = [this](run_outcome outcome) {
    outcome_ = std::move(outcome);
    ended_at_ = clock_->now();
  };
  if (has_links(lab_))
    options.between = [this](rank worker, std::uint32_t s, const caf::actor& shard) {
      return link_to(worker, s, shard);
    };
  options.runner = [this](rank worker, std::shared_ptr<step_runner> own) {
    return runner_of(worker, std::move(own));
  };
  return options;
}

/// The actor that stands between a worker and a shard.
caf::actor virtual_run::link_to(rank worker, std::uint32_t s, const caf::actor& shard) {
  if (wires_.size() <= worker.value) wires_.resize(worker.value + 1);
  std::shared_ptr<gradient_wire>& wire = wires_[worker.value];
  if (!wire) wire = std::make_shared<gradient_wire>(lab_.wire, plan_.layout);
  links_.push_back(spawn<worker_link>(
      system_.actors(), worker_link_options{shard, s, times_of(lab_.links, worker, lab_.workers), wire,
                                            clock_, beside_steps_}));
  return links_.back();
}

/// All workers compute with the runner that was made for the first.
std::shared_ptr<step_runner> virtual_run::runner_of(rank worker, std::shared_ptr<step_runner> own) {
  if (!shared_) shared_ = std::move(own);
  std::function<void(std::span<const float* const>)> on_begin;
  if (lab_.on_read)
    on_begin = [this, worker](std::span<const float* const> shards) {
      lab_.on_read(worker, clock_->now(), {shards.front(), plan_.layout->size()});
    };
  auto law = lab_.delays ? lab_.delays->law_of(worker) : delays_.law_of(worker, plan_.options.delays_seed);
  auto simulated = std::make_shared<simulated_runner>(
      shared_, step_delays{std::move(law), clock_, timer_of(worker), instant{0}}, std::move(on_begin),
      [this](float loss) {
        ++computed_;
        losses_.add(loss);
      },
      may_skip());
  if (simulated_.size() <= worker.value) simulated_.resize(worker.value + 1);
  simulated_[worker.value] = simulated;
  if (!lab_.local_samples) return simulated;
  return std::make_shared<local_sample_runner>(std::move(simulated), samples_, worker, lab_.workers,
                                               plan_.options.batch, plan_.request.nonzeros);
}

/// The timer of one worker, whose events are known as its own.
std::shared_ptr<step_timer> virtual_run::timer_of(rank worker) {
  if (late_) return late_->timer_of(worker);
  return std::make_shared<timer_by>([clock = clock_, worker](instant when, step_timer::notice tell) {
    clock->at(when, worker.value, std::move(tell));
  });
}

void virtual_run::fetch_ahead(rank worker, virtual_clock::foresight before) const {
  const simulated_runner& runner = *simulated_[worker.value];
  if (before == virtual_clock::foresight::some)
    mailgrad::fetch_ahead(runner);
  else if (before == virtual_clock::foresight::few)
    runner.fetch_parts();
  else
    runner.fetch_values();
}

/// Whether workers ask shards if they will discard a gradient.
bool virtual_run::may_skip() const {
  const auto discards = [](const auto& p) { return p.policy.traits().has_most_stale; };
  if (lab_.computes_discarded || std::ranges::none_of(plan_.policies, discards)) return false;
  const bool counts_rows = !lab_.links.bandwidth.empty() && plan_.layout->dense_size() < plan_.layout->size();
  return !is_lossy(lab_.wire.format) && !counts_rows;
}

void virtual_run::run() {
  system_.run();
  interrupt_late_steps();
  while (!outcome_ && clock_->next()) {
    ++events_;
    system_.run();
    interrupt_late_steps();
    test_if_due();
    stop_if_asked();
  }
  if (!outcome_) throw std::logic_error("lab: the run has not ended, and nothing is left that could happen");
}

/// How many updates the one shard has made.
std::uint64_t virtual_run::version_now() {
  send_anonymously(versions_, read_shard{});
  system_.run();
  return version_;
}

/// A worker whose step has ended asks the shard, which predicts that the gradient is discarded. So nothing
/// is computed, and there is no update.
void virtual_run::interrupt_late_steps() {
  if (!late_ || outcome_) return;
  const std::uint64_t computed = computed_, version = version_now();
  const std::size_t ended = late_->end(version);
  if (ended == 0) return;
  events_ += ended;
  system_.run();
  if (computed_ != computed || version_now() != version)
    throw std::logic_error("lab: a step was interrupted whose gradient counts");
  late_->end(version); // what the steps that began now have read
}

/// Some steps take long to compute.
void virtual_run::stop_if_asked() {
  constexpr std::uint64_t between = 64;
  if (stopping_ || events_ - asked_after_ < between || !lab_.stop) return;
  asked_after_ = events_;
  if (!lab_.stop()) return;
  stopping_ = true;
  send_anonymously(crew_->coordinator(), stop_training{"stopped on request"});
}

bool virtual_run::tests() const {
  return lab_.test_every > 0 && lab_.on_test && plan_.judged_by().size() > 0;
}

void virtual_run::read_weights() {
  read_.resize(plan_.layout->size());
  read_updates_ = 0;
  if (!crew_->shards().empty()) {
    send_anonymously(reader_, read_shard{});
    system_.run();
  } else {
    crew_->store()->load(0, read_);
    read_updates_ = crew_->store()->version();
  }
}

void virtual_run::take_weights(const shard_read& x) {
  const shard_range range = plan_.layout->shard(x.shard.value);
  const std::span mine = std::span(read_).subspan(range.begin, range.size());
  if (x.in_block)
    crew_->store()->load(range.begin, mine);
  else
    std::ranges::copy(x.values.on_host(), mine.begin());
  read_updates_ = std::max(read_updates_, x.in_block ? crew_->store()->version() : x.version.value);
}

/// An event with which workers are interrupted ends several steps. The last test is that of the report.
void virtual_run::test_if_due() {
  if (!tests() || steps() / lab_.test_every == tested_after_ / lab_.test_every || outcome_) return;
  tested_after_ = steps();
  read_weights();
  virtual_test made{clock_->now(), steps(), read_updates_};
  if (!losses_.empty()) made.train_loss = losses_.mean();
  losses_ = {};
  made.result = evaluate(plan_.model, plan_.request, *plan_.layout, read_, plan_.judged_by(), lab_.stop);
  if (made.result.whole) lab_.on_test(made);
}

const run_outcome& virtual_run::ended() const {
  if (!outcome_) throw std::logic_error("lab: the run has not ended");
  return *outcome_;
}

run_trace virtual_run::trace() { return trace_of(ended(), instant{0}, ended_at_); }

std::span<const float> virtual_run::parameters() {
  const run_outcome& outcome = ended();
  if (!parameters_.empty()) return parameters_;
  if (plan_.has_shards()) {
    parameters_ = joined_weights(outcome, *plan_.layout).value_or(std::vector<float>());
  } else {
    parameters_.resize(plan_.layout->size());
    crew_->store()->load(0, parameters_);
  }
  return parameters_;
}

training_report virtual_run::report(const std::function<bool()>& stop_test) {
  const hogwild_store* const store = crew_->store();
  training_report r = report_of(ended(), store ? std::optional(store->version()) : std::nullopt);
  describe(r, plan_, ended_at_, outcome_->checkpoints);
  date_switches(r, plan_, instant{0});
  r.delays->virtual_time = true;
  r.delays->interrupts = lab_.interrupts;
  if (lab_.delays) r.delays->law = lab_.delays->name;
  r.delays->latency = lab_.links.latency;
  r.delays->bandwidth = lab_.links.bandwidth;
  if (is_lossy(lab_.wire.format)) r.wire = to_string(lab_.wire.format);
  if (!parameters().empty()) r.parameters_sha256 = sha256(std::as_bytes(parameters()));
  test_trained(r, plan_, parameters(), stop_test);
  return r;
}

std::uint64_t virtual_run::plan(model_function model, std::shared_ptr<const data_split> data,
                                training_options options, const virtual_run_options& lab) {
  const run_plan plan = virtual_plan(std::move(model), std::move(data), std::move(options), lab.workers);
  const delay_spec refuses_wrong_laws(plan.options.delays, lab.workers);
  require_links(lab, plan);
  if (lab.interrupts) limit_of_interruptions(lab, plan);
  return plan.steps;
}

} // namespace mailgrad::lab
