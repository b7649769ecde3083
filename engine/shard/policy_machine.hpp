#pragma once

#include <mailgrad/engine/shard/order_entry.hpp>
#include <mailgrad/optim/policies/policy.hpp>

namespace mailgrad {

/// Where a gradient waits that does not make an update by itself.
enum class waits_in : std::uint8_t { batch, queue, round, next_round };

/// Judges the gradients of one shard by the present policy. It says where each waits, has updates made when
/// they are due, and knows who may start. A shard of a run and one of a rehearsal differ only in what an
/// update is.
///
///     judge() -> apply:   the caller makes an update by itself
///             -> merge:   the caller keeps it in place(), then update_if_due()
///             -> defer:   the caller keeps it in the next round
///     update_if_due(), leave(), close(), finish() -> side::update() -> updated()
/// Threads  one caller at a time. `of` must outlive it.
class policy_machine {
public:
  class side {
  public:
    virtual ~side() = default;

    virtual version_number version() const = 0;
    /// Whether no gradient and no place of a lost one waits for an update.
    virtual bool nothing_waits() const = 0;
    /// Whether an update has begun that is not made yet; none is due before.
    virtual bool is_updating() const { return false; }
    /// Makes the next version of all that waits in the batch or the round, or of the `first` in the queue.
    /// Returns whether it is made; if not, updated() is to be called when it is.
    virtual bool update(waits_in where, std::size_t first) = 0;
    /// Makes the next version of nothing, in place of a gradient that is lost.
    virtual void update_of_nothing() = 0;
    /// Keeps an empty place for a gradient that is lost; in a batch it has none.
    virtual void add_lost(waits_in where) = 0;
    /// So many rounds are over: what waits for the next one is that of the present one.
    virtual void begin_round(std::uint64_t rounds_over) = 0;
    virtual void skip_to_waiting() = 0; ///< ends the present round if all that waits is of the next one
    virtual void clear_rounds() = 0;    ///< the policy has ended, and its rounds are to be forgotten
  };

  policy_machine(side& of, std::unique_ptr<policy> first) : of_(of), rule_(std::move(first)) {}

  policy& rule() noexcept { return *rule_; }
  const policy& rule() const noexcept { return *rule_; }
  /// The verdict on a gradient that was computed from the version `read`, at its turn.
  decision judge(const order_entry& entry, version_number read) {
    return rule_->judge({entry.worker, entry.step, read, of_.version(), entry.arrived});
  }
  waits_in place(verdict what = verdict::merge) const {
    if (what == verdict::defer) return waits_in::next_round;
    if (rule_->has_rounds()) return waits_in::round;
    return rule_->takes_first() > 0 ? waits_in::queue : waits_in::batch;
  }
  /// Does what follows from the verdict on a lost gradient, so that the versions of all shards stay equal.
  void take_lost(verdict what) {
    add_lost(what);
    if (what == verdict::merge) update_if_due();
    if (what == verdict::apply) of_.update_of_nothing();
  }
  /// Only keeps its place.
  void add_lost(verdict what) {
    if (what == verdict::merge || what == verdict::defer) of_.add_lost(place(what));
  }
  /// Has the updates made that are due. Only queues and rounds may have several, and none of nothing.
  void update_if_due() {
    const bool several = place() != waits_in::batch;
    while (rule_->batch_complete() && !of_.is_updating() && !(several && of_.nothing_waits())) {
      update();
      if (!several) return;
    }
  }
  /// An update has ended that had not when side::update() returned: makes what else is due.
  void end_update() {
    updated();
    if (place() != waits_in::batch) update_if_due();
  }
  /// An update of gradients that waited has ended, or their batch is dropped.
  void updated() {
    rule_->batch_applied();
    begin_round();
  }
  void leave(rank worker) {
    rule_->leave(worker);
    begin_round();
    update_if_due();
  }
  /// The time is over for which the policy waits for more gradients of the pending batch.
  void close() {
    rule_->close();
    update_if_due();
  }
  /// The policy ends: makes updates of all that waits.
  void finish() {
    while (!of_.nothing_waits()) {
      of_.skip_to_waiting();
      update();
    }
    of_.clear_rounds();
  }
  void begin(std::unique_ptr<policy> next) { rule_ = std::move(next); }

  bool may_start(rank worker) const { return rule_->may_start(worker); }
  /// Whether a worker that may start gets the present weights, and not those that it had.
  bool renews(rank worker) const { return !rule_->has_rounds() || rule_->renews(worker); }

private:
  void update() {
    if (of_.update(place(), rule_->takes_first())) updated();
  }
  void begin_round() {
    if (rule_->has_rounds()) of_.begin_round(rule_->rounds_over());
  }

  side& of_;
  std::unique_ptr<policy> rule_; ///< the present one
};

} // namespace mailgrad
