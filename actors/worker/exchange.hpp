#pragma once

#include <mailgrad/actors/protocol/notices.hpp>
#include <mailgrad/actors/worker/step_gate.hpp>
#include <mailgrad/engine/worker/hogwild_writer.hpp>
#include <mailgrad/engine/worker/local_steps.hpp>
#include <mailgrad/net/all_reduce.hpp>

namespace mailgrad {

/// What a device actor lends to its exchanges. It outlives them.
struct worker_context {
  caf::event_based_actor* self;
  run_id run;
  rank worker;
  incarnation_number incarnation;
  step_runner& runner;
  worker_report& report;
  const time_source& time;
  trace_track* trace;                     ///< null if no timeline is made
  const steps_under_way* steps = nullptr; ///< of the worker; null: none can be, while it gets weights
};

/// A gradient that the worker has computed.
struct computed_gradient {
  std::shared_ptr<gradient> values; ///< null if the step was skipped
  float scale = 1;                  ///< by which clipping multiplies it; 1 if it is not clipped
  instant at{0};                    ///< when it had been computed, or its step had begun if it is pushed then
  /// On forward, backward and clipping; of an earlier step if it is pushed when it begins.
  std::optional<instant> spent{};
  std::size_t samples = 0; ///< of its batch
};

/// What a worker has trained.
struct trained_work {
  std::uint64_t batches = 0;
  std::uint64_t samples = 0; ///< in these
};

class shard_lines;

/// How the gradients of a worker become weights, and how the worker gets the weights of its next step.
///
/// The device actor calls bind() before a step and deliver() after it. receive() takes the answers of the
/// shards; shard_lines counts those that are still missing.
/// Errors   std::runtime_error: an update rule of the worker's own failed.
class exchange {
public:
  exchange(const worker_context& of, shard_lines& lines) : of_(of), lines_(lines) {}
  virtual ~exchange() = default;

  /// Takes the weights of one shard: gives them to the runner.
  virtual void receive(const shard_weights& x);
  /// Takes an answer that a pause has overtaken. Its weights are out of date.
  virtual void receive_late([[maybe_unused]] const shard_weights& x) {}
  /// Called when all shards have answered and another step follows: does what has waited for the answers.
  virtual void go_on() {}
  /// Lays out the weights of the next step for the runner.
  virtual void bind() {}
  /// Pushes the gradient, applies it, or keeps it.
  virtual void deliver(computed_gradient g) = 0;
  /// Whether deliver() does nothing but push a gradient, and never reads it.
  virtual bool only_pushes() const { return false; }
  /// Whether a gradient that was delivered is being added up with those of other workers. The step has not
  /// ended before take_sum().
  virtual bool is_summing() const { return false; }
  virtual void take_sum([[maybe_unused]] const gradients_summed& x) {}
  /// The worker ends; nothing more is delivered.
  virtual void leave() {}
  /// Pushes what is kept. Returns true if there was anything, so that the shards will answer.
  virtual bool flush() { return false; }
  /// Whether a step is computed, and go_on() takes it.
  virtual bool holds_step() const { return false; }
  /// The policy is about to change. No step is under way, and all shards will send new weights.
  virtual void pause() {}

  /// Writes or reads what outlives a step, for checkpoints.
  virtual void keep(archive&) {}
  /// Binds weights and returns a batch to compute once more at these; null: none.
  virtual std::shared_ptr<const batch> bind_repeat() { return nullptr; }
  /// Takes the gradient of that batch. Binds the weights of the next step again.
  virtual void take_repeat([[maybe_unused]] const gradient& fresh) {}

protected:
  worker_context of_;
  shard_lines& lines_;
};

/// The lines from a worker to its shards: what it pushed, which answers are missing, the weights it holds,
/// and how long it has waited for them. A run of hogwild alone has no shards.
///
/// Guarantees  a gradient is pushed to all shards or to none. The worker releases all weights before a push,
///             so that a shard without other readers may update in place. A step that is under way on a GPU
///             holds its weights until it has ended.
class shard_lines : messaging::actor_part {
public:
  shard_lines(const worker_context& of, std::vector<caf::actor> shards)
      : actor_part(of.self), of_(of), shards_(std::move(shards)), held_(shards_.size()),
        missing_(shards_.size()), waiting_since_(of.time.now()) {}

  /// Tells every shard that the worker takes part. Each will answer.
  void join() {
    const caf::actor me = myself();
    for (const caf::actor& shard : shards_) send(shard, join_shard{of_.worker, of_.incarnation, me});
    waiting_since_ = of_.time.now();
  }
  /// Tells every shard to wait for this worker no longer.
  void leave() {
    for (const caf::actor& shard : shards_) send(shard, worker_left{of_.worker, of_.incarnation});
  }

  std::size_t count() const noexcept { return shards_.size(); }
  bool all_answered() const noexcept { return missing_ == 0; }
  policy_epoch epoch() const noexcept { return epoch_; } ///< answers of another are out of date
  step_number step() const noexcept { return step_; }    ///< gradients, or differences, pushed so far

  /// Notes an answer, which was `taken` from the mailbox at that time. `read` is how long it took to get the
  /// weights into the model.
  void note(const shard_weights& x, instant taken, instant read) {
    held_[x.header.shard.value] = {x.header.version, x.payload.values, read};
    trace(x, taken);
    if (x.header.stay) note_waits(*x.header.stay, taken);
    --missing_;
  }
  const snapshot& weights(std::uint32_t shard) const { return held_[shard].values; }

  /// Pushes to all shards. `with_weights`: the weights that the gradient was computed from are sent with it.
  /// `held_back`: what is trained, but not behind this gradient. `sum`: it is part of that. `values`
  /// is taken by value, because only the messages may hold it afterwards; null if another worker carries
  /// them.
  void push(std::shared_ptr<const gradient> values, float scale, instant at, std::optional<instant> spent,
            bool with_weights = false, trained_work held_back = {}, std::optional<sum_tag> sum = {});

  /// Asks every shard whether it will discard the next gradient.
  void ask_whether_discarded();
  /// Takes an answer. Returns whether all shards will discard it, when the last answer has come.
  std::optional<bool> take_predicted(const verdict_predicted& x) {
    if (predicted_missing_ == 0 || x.step.value != step_.value + 1) return std::nullopt;
    all_discard_ = all_discard_ && x.discarded;
    if (--predicted_missing_ > 0) return std::nullopt;
    return all_discard_;
  }

  /// This incarnation begins now: what the report counts so far, earlier ones or another process have done.
  void begin_incarnation() { before_ = {of_.report.steps, of_.report.samples}; }
  /// The batches that this incarnation has trained.
  std::uint64_t trained() const { return of_.report.steps - before_.batches; }
  void join_in(policy_epoch epoch) { epoch_ = epoch; }

  /// Tells every shard that what was pushed so far belongs to a checkpoint.
  void mark(std::uint64_t checkpoint, const caf::actor& collector) {
    for (const caf::actor& shard : shards_)
      send(shard, checkpoint_marker{checkpoint, of_.worker, of_.incarnation, step_, collector});
  }
  /// Writes or reads which gradient was the last, and which shards have answered it.
  void keep(archive& a);
  /// Whether that shard had answered when what was read was kept. Its next answer is the same again.
  bool had_answered(std::uint32_t shard) const {
    return shard < had_answered_.size() && had_answered_[shard];
  }
  /// Whether such an answer has not come again. Until then it is not known which version the worker holds.
  bool awaits_again() const {
    for (std::uint32_t s = 0; s < held_.size(); ++s)
      if (had_answered(s) && !held_[s].values) return true;
    return false;
  }

  /// Another policy begins. The weights are released, and all shards will send new ones.
  void begin_epoch(policy_epoch epoch);

  /// The steps whose gradients were pushed when they began have all ended `now`: the worker waits only from
  /// now on, if an answer is missing.
  void begin_idle(instant now) {
    if (missing_ > 0) idle_since_ = now;
  }

  /// Called at the beginning of a step: adds up how long the worker has waited for it.
  void end_waits();

  /// "the weights of 1 of 2 shards after step 3", and since when.
  std::string waits_for() const {
    return fmt::format("the weights of {} of {} shards after step {}", missing_, shards_.size(), step_.value);
  }
  instant waits_since() const noexcept { return waiting_since_; }

private:
  /// The weights of one shard as this worker last got them.
  struct held_weights {
    version_number version;
    snapshot values;
    instant read{0}; ///< how long it took to get the weights into the model
  };

  bool is_computing() const { return of_.steps != nullptr && !of_.steps->empty(); }
  /// What lies under a step that the worker computes is no wait.
  void note_waits(const stay_at_shard& stay, instant taken) {
    if (is_computing()) return;
    const instant most = idle_since_ ? taken - *idle_since_ : instant::max();
    at_barrier_ = std::max(at_barrier_, std::min(most, instant{stay.until_barrier}));
    at_bound_ = std::max(at_bound_, std::min(most, instant{stay.under_bound}));
  }
  void trace(const shard_weights& x, instant taken) const;
  void trace_stay(const stay_at_shard& stay, std::uint32_t shard) const;

  worker_context of_;
  std::vector<caf::actor> shards_;
  std::vector<held_weights> held_; ///< by shard
  std::size_t missing_;            ///< number of shards that have not answered
  std::vector<bool> had_answered_; ///< by shard, until the first push; empty unless the run is resumed
  step_number step_;
  std::size_t predicted_missing_ = 0; ///< shards that have not said whether they will discard it
  bool all_discard_ = false;          ///< of those that have
  trained_work before_{};
  policy_epoch epoch_;
  instant waiting_since_;
  std::optional<instant> idle_since_;     ///< set while it is later than the push
  std::optional<instant> at_fence_since_; ///< set while a switch of policy holds the worker
  instant at_barrier_{0};                 ///< the longest wait of any shard for this step
  instant at_bound_{0};
};

/// Pushes each gradient to every shard, and takes their answers as the weights of the next step.
///
/// The gradient of each `sample_gap`-th step is sent with the weights it was computed from. When the worker
/// knows the weights that it met on every shard, it computes the batch once more at these, and notes the
/// cosine of the two gradients. A switch of policy may come in between: whether the answers or the pause come
/// first makes no difference, so a replay compares what its run compared.
class shard_exchange : public exchange {
public:
  /// `sample_gap` 0: no gradient is sampled.
  shard_exchange(const worker_context& of, shard_lines& lines, std::uint64_t sample_gap)
      : exchange(of, lines), sample_gap_(sample_gap), comparison_(lines.count()) {}

  void receive(const shard_weights& x) override {
    exchange::receive(x);
    receive_late(x);
  }
  bool only_pushes() const override { return true; }
  void deliver(computed_gradient g) override {
    const step_number next{lines_.step().value + 1};
    const bool sampled = sample_gap_ > 0 && next.value % sample_gap_ == 0 && g.values;
    if (sampled) comparison_.begin(next, g.values);
    lines_.push(std::move(g.values), g.scale, g.at, g.spent, sampled);
  }
  void receive_late(const shard_weights& x) override {
    if (x.payload.met) comparison_.take(x.header.shard, x.header.met, x.payload.met);
  }
  std::shared_ptr<const batch> bind_repeat() override {
    if (!comparison_.ready()) return nullptr;
    for (std::uint32_t s = 0; s < lines_.count(); ++s) of_.runner.use_weights(s, comparison_.weights({s}));
    of_.runner.compare_with(comparison_.stale());
    return comparison_.stale()->source;
  }
  void take_repeat(const gradient& fresh) override;

private:
  std::uint64_t sample_gap_;
  gradient_comparison comparison_;
};

/// Takes local steps, and pushes the difference that several of them have made as if that were a gradient.
class local_exchange : public exchange {
public:
  /// The exchange owns `local`.
  local_exchange(const worker_context& of, shard_lines& lines, std::shared_ptr<local_steps> local)
      : exchange(of, lines), local_(std::move(local)) {}

  void receive(const shard_weights& x) override {
    const instant taken = of_.time.now();
    if (!lines_.had_answered(x.header.shard.value)) // else these weights have been received before
      local_->receive(x.header.shard.value, x.payload.values, x.payload.met);
    lines_.note(x, taken, of_.time.now() - taken);
  }
  void go_on() override;
  void bind() override { of_.runner.use_weights(0, local_->weights()); }
  void deliver(computed_gradient g) override;
  bool flush() override {
    if (local_->taken() == 0) return false;
    lines_.push(local_->difference(), 1, of_.time.now(), std::exchange(spent_, instant{0}), false,
                local_->holds() ? trained_work{1, last_samples_} : trained_work{});
    return true;
  }
  bool holds_step() const override { return local_->holds(); }
  void pause() override { local_->start_anew(); }
  void keep(archive& a) override { a.field("local_steps", *local_); }

private:
  std::shared_ptr<local_steps> local_;
  instant spent_{0};             ///< on the steps since the last push
  std::size_t last_samples_ = 0; ///< of the last step
};

/// Adds each gradient up with those of all other workers, and then pushes it to every shard. The worker of
/// the lowest rank that has one in the sum carries it; the others push a gradient without values that says
/// where theirs is. So each shard judges, counts and answers every gradient, and gets the values of one.
///
/// A worker that ends leaves the sums, in which no other then waits for it. The wait for the sum counts as
/// one at a barrier.
///
///     deliver() --> summing --gradients_summed--> take_sum(): pushed
/// Errors   deliver(): std::runtime_error for a gradient that lacks some weights, or has tables.
class summed_exchange final : public exchange {
public:
  summed_exchange(const worker_context& of, shard_lines& lines, std::shared_ptr<net::all_reduce> sums)
      : exchange(of, lines), sums_(std::move(sums)) {}

  void deliver(computed_gradient g) override;
  bool is_summing() const override { return summing_.has_value(); }
  void take_sum(const gradients_summed& x) override;
  void leave() override { sums_.reset(); }

private:
  std::shared_ptr<net::all_reduce> sums_;
  std::optional<computed_gradient> summing_; ///< the sum of it is under way
};

/// Reads the weights in a block that all workers share, and writes each gradient straight into it (hogwild).
/// Shards, if the run has any, only tell when the worker may begin.
class block_exchange : public exchange {
public:
  /// `shard_begins`: where each shard begins in the block, in floats. The exchange owns `writer`.
  block_exchange(const worker_context& of, shard_lines& lines, std::shared_ptr<hogwild_writer> writer,
                 std::vector<std::size_t> shard_begins, caf::actor tracker, notice_pace pace = {});

  void receive(const shard_weights& x) override { lines_.note(x, of_.time.now(), instant{0}); }
  void bind() override;
  void deliver(computed_gradient g) override;
  /// Tells the tracker of the gaps that it has not heard of.
  bool flush() override {
    notices_.flush();
    return false;
  }
  void keep(archive& a) override { writer_->keep(a); }

private:
  std::shared_ptr<hogwild_writer> writer_;
  std::vector<std::size_t> shard_begins_;
  gap_notices notices_;
};

} // namespace mailgrad
