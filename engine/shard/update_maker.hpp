#pragma once

#include <mailgrad/engine/shard/policy_machine.hpp>
#include <mailgrad/engine/shard/shard_port.hpp>
#include <mailgrad/engine/shard/waiting_gradients.hpp>
#include <mailgrad/engine/shard/worker_slots.hpp>
#include <mailgrad/optim/cures/cure.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>

namespace mailgrad {

/// Draws the moments, waits and work of a shard into its timeline, if there is one.
class shard_timeline {
public:
  shard_timeline(std::shared_ptr<const time_source> time, std::shared_ptr<trace_track> track)
      : time_(std::move(time)), track_(std::move(track)) {}
  void applied(const gradient_header& x, version_number version, instant begun, instant span) {
    if (!track_) return;
    track_->work({trace_kind::apply, begun, begun + span, x.id.worker.value, x.id.step.value,
                  x.version_read.value, version.value});
  }
  /// The shard was idle until it took a gradient that `arrived`. `batch_begun`: it waited for the rest of a
  /// batch. `follows`: it may also have waited for the first shard's verdict.
  void idle(bool batch_begun, instant arrived, bool follows) {
    if (!track_) return;
    track_->wait(batch_begun ? trace_kind::rest_of_batch : trace_kind::gradient, arrived);
    if (follows) track_->wait(trace_kind::word_of_first_shard, time_->now());
  }
  void moment(trace_kind what, const gradient_header& x, std::string_view word) {
    if (!track_) return;
    const instant now = time_->now();
    track_->moment({what, now, now, x.id.worker.value, x.id.step.value, x.version_read.value, 0, word});
  }

  std::shared_ptr<trace_track> take() { return std::move(track_); } ///< gives the track away, at the end

private:
  std::shared_ptr<const time_source> time_;
  std::shared_ptr<trace_track> track_;
};

/// Applies a cure at one shard: compensates stale gradients, predicts weights, keeps what workers read.
///
/// To compensate costs a pass over the shard for each gradient, weights read cost a snapshot for each worker.
class shard_cure {
public:
  /// `what` is null if the run has no cure; gradients are then applied as they are.
  shard_cure(std::unique_ptr<cure> what, std::shared_ptr<shard> weights, std::uint32_t workers);
  snapshot weights_for(rank worker); ///< the weights that `worker` computes its next gradient from
  /// The weights that `worker` was last sent; empty unless the cure needs them.
  const snapshot& read_by(rank worker) const { return read_[worker.value]; }
  void leave(rank worker) {
    read_[worker.value].reset();
    if (cure_) cure_->leave(worker);
  }
  /// Whether the gradients of a batch are summed; if not, their mean is taken.
  bool adds_up() const { return cure_ && cure_->adds_up(); }
  /// Whether an exchange pulls the worker to the weights that its gradient met, which the shard then sends.
  bool draws_workers() const { return cure_ && cure_->pull(); }
  /// The factor on the learning rate of a gradient with this gap; in a batch, on the gradient itself.
  double factor(std::uint64_t gap) const { return cure_ ? cure_->factor(gap) : 1; }
  /// The contribution that the shard applies for `x`, which was computed from `read`, with the scale of `x`.
  contribution applied(const push_gradient& x, const snapshot& read);
  /// Notes that `worker` has these weights, as if they had been sent to it just now.
  void has(rank worker, const snapshot& values) {
    if (cure_ && cure_->needs_weights_read()) read_[worker.value] = values;
  }
  /// Writes or reads the state of the cure, without the weights that workers have.
  void keep(archive& a) {
    if (cure_) a.field("cure", *cure_);
  }

private:
  std::unique_ptr<cure> cure_;
  std::shared_ptr<shard> weights_;
  std::span<const float> velocity_; ///< of the optimiser, if it has one
  object_pool<memory> blocks_;      ///< for predicted weights and compensated gradients
  std::vector<snapshot> read_;      ///< by rank: the weights that the worker was last sent
};

/// Makes updates of the gradients that a policy has taken. A gradient makes one by itself, or waits in the
/// batch, the queue or its round, and makes one together with others.
///
///     add() --> counted --make()------> version t+1 --> the ledgers
///     add_waiting() --> waits --update()--> counted --^    and in a round stays for all its updates
///
/// Where helpers are, an update that every worker waits for is divided:
///
///     make() returned false --compute_part()..., all parts are computed--> end() --> version t+1
///
/// A gradient is counted just before the first version that it helps to make: its gap is noted, and cured.
/// Errors  std::runtime_error: which update of which rule failed, and why. The shard cannot go on.
///         out_of_memory: likewise, but the weights are those of before.
/// Threads one caller at a time; helpers touch only parts that they have begun. The workers, the port and the
///         timeline must outlive it.
class update_maker final : public policy_machine::side {
public:
  struct options {
    std::shared_ptr<shard> weights;
    cure_spec cure;
    std::shared_ptr<const time_source> time;
    std::size_t helpers = 0;
  };
  /// Errors  std::runtime_error if memory is lacking for what the cure keeps.
  update_maker(options o, worker_slots& workers, shard_port& port, shard_timeline& timeline);

  version_number version() const override { return weights_->version(); }
  /// The staleness of `x`: how many versions were made since the weights that it was computed from.
  std::uint64_t gap_of(const gradient_header& x) const { return version() - x.version_read; }
  /// Makes the next update of this gradient alone. Returns the cure's factor on the learning rate.
  double add(const push_gradient& x);
  /// Makes the version, with the learning rate times `rate`. False: it is divided, and end() makes it.
  bool make(double rate);
  void update_of_nothing() override {
    of_batch_ = false;
    make(1);
  }
  /// Makes an update of the mean of the batch, or of its sum if the cure requires that; or of the first
  /// gradients of the queue; or of the present round, as the mean of each worker's mean.
  bool update(waits_in where, std::size_t first) override;
  instant batch_begun() const noexcept { return batch_begun_; } ///< when that was begun last
  /// Whether an update may be divided from now on, if every worker waits for it.
  void may_divide(bool may) noexcept { may_divide_ = may; }
  bool is_updating() const override { return work_ != nullptr; }
  const std::shared_ptr<parallel_update>& work() const noexcept { return work_; }
  parallel_update::progress compute_part();
  /// Ends it when all parts are computed. Returns whether it was of gradients that had waited.
  bool end();
  /// Throws what says that the present update cannot be computed.
  [[noreturn]] void fail(const std::string& why) const;
  /// Keeps a gradient, which is of so many samples, until the updates that it is part of.
  void add_waiting(const push_gradient& x, waits_in where, std::uint64_t samples = 1);
  void add_lost(waits_in where) override {
    if (where == waits_in::queue) queue_.add_lost();
    if (where == waits_in::round) table_.add_lost();
    if (where == waits_in::next_round) table_.defer_lost();
  }
  /// The batch gets no more gradients of ranks below `next`. Shares of workers are known when it is complete.
  void give_places(rank next) {
    if (weighing_ == weighing::workers) return;
    batch_.give_places(next, [this](const waiting_gradient& g) { return counted(g); });
  }
  void release_credit() { batch_.release_credit(); }
  bool nothing_waits() const override { return batch_.empty() && queue_.empty() && table_.nothing_waits(); }
  /// Whether all that waits, if anything, are places of lost gradients.
  bool no_gradient_waits() const { return batch_.empty() && queue_.size() == 0 && !table_.has_waiting(); }
  std::uint64_t waiting(rank worker) const {
    return batch_.of(worker) + queue_.of(worker) + table_.of(worker);
  }
  void weigh(weighing by) { weighing_ = by; }
  /// Takes so many places off the queue, none of which has a gradient, and that of the present round.
  void drop_lost(std::size_t places) {
    queue_.take(places);
    table_.drop_lost();
  }
  void begin_round(std::uint64_t rounds_over) override { table_.begin_round(rounds_over); }
  void skip_to_waiting() override { table_.skip_to_waiting(); }
  void clear_rounds() override { table_.clear(); }
  /// The weights that workers get and have, and the state of the cure.
  shard_cure& cure() noexcept { return cure_; }
  /// Writes or reads the gradients that wait, which are of `run` when read.
  void keep_waiting(archive& a, const policy& rule, run_id run) {
    a.group("batch", [&] { batch_.keep(a, run); });
    if (rule.takes_first() > 0) a.group("queue", [&] { queue_.keep(a, run, *weights_, workers_.count()); });
    if (rule.has_rounds()) a.group("round", [&] { table_.keep(a, run); });
  }
  /// Adds the distances of sampled gradients that have been measured by now to the accounts.
  void note_distances();

private:
  /// How far the weights had moved when a sampled gradient came.
  struct sampled_distance {
    gradient_id of;
    std::uint64_t lag;
    std::shared_ptr<const memory> measured;
    device_event until; ///< then it has come
  };

  waiting_gradient received(const push_gradient& x, std::uint64_t samples);
  float share_of_all() const;
  gradient_batch::sharing shares() const;
  void add_to_batch(waiting_gradient g) {
    batch_.add(std::move(g), [this](const waiting_gradient& one) { return counted(one); });
  }
  void add_batch();
  void add_round();
  /// `what` is null for a gradient that is part of a sum added before.
  void add_to_update(const gradient_header& x, const contribution* what) {
    gradients_.push_back(x);
    if (what) contributions_.push_back(*what);
  }
  double observe(const push_gradient& x);
  void sample(const push_gradient& x);
  /// An incarnation that has come meanwhile has computed nothing that met these weights.
  void meet(const push_gradient& x) {
    worker_slot& worker = workers_[x.header.id.worker];
    if (worker.incarnation == x.header.id.incarnation) worker.met = {x.header.id.step, weights_->snapshot()};
  }
  contribution counted(const waiting_gradient& g);
  /// Not if a worker may be computing on another thread, which would get its answer late.
  bool divides() const { return may_divide_ && helpers_ > 0 && weights_->divides() && workers_.all_wait(); }
  void note_version();
  std::string in_words() const;

  std::shared_ptr<shard> weights_;
  std::shared_ptr<const time_source> time_;
  std::size_t helpers_;
  worker_slots& workers_;
  shard_port& port_;
  shard_timeline& timeline_;
  shard_cure cure_;
  gradient_batch batch_;
  gradient_queue queue_;
  gradient_table table_;
  weighing weighing_ = weighing::gradients;
  instant batch_begun_{0};
  // The present update:
  std::vector<gradient_header> gradients_; ///< that are new in it
  std::vector<contribution> contributions_;
  float share_ = 1;       ///< what their sum is multiplied by
  bool of_batch_ = false; ///< it is made of gradients that have waited
  instant begun_{0};
  bool may_divide_ = false;
  object_pool<parallel_update> works_;
  std::shared_ptr<parallel_update> work_;  ///< if it is divided
  std::deque<sampled_distance> distances_; ///< that have still to come
};

} // namespace mailgrad
