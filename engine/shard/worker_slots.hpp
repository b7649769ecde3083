#pragma once

#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/account/run_meter.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/shard/shard_weights.hpp>
#include <mailgrad/engine/shard/switch_policy.hpp>

namespace mailgrad {

/// The weights of an answer, kept so that it can be given again when the run is resumed.
struct kept_answer {
  version_number version;
  snapshot values;
  weights_met met;
};

/// What a shard knows of a worker: whether it takes part, and since when it waits for weights.
struct worker_slot {
  bool here = false;                  ///< it has joined, and has not left
  incarnation_number incarnation{};   ///< of the worker that has joined
  instant arrived{0};                 ///< when its last gradient arrived
  std::optional<instant> heard_at{};  ///< when the last message of this incarnation arrived
  std::optional<instant> in_mailbox;  ///< how long that gradient waited in the mailbox, if known
  std::optional<instant> waits_since; ///< set when that gradient has been judged
  step_number waiting_step;
  step_number discarded{};   ///< its last gradient that no update has taken
  bool merged = false;       ///< its gradient is in the pending batch
  bool left = false;         ///< and no later incarnation has joined; also while the slot is empty
  bool empty = false;        ///< no incarnation has joined yet, and the run began without this rank
  std::uint64_t batches = 0; ///< of this incarnation, whose gradients have been judged, or will be next
  std::uint64_t samples = 0; ///< in these batches
  std::uint64_t judged = 0;  ///< samples in those that have been judged
  std::uint64_t heard = 0;   ///< gradients of this incarnation that have arrived
  bool in_policy = true;     ///< the policy counts it as taking part
  bool greeted = false;      ///< its join has been taken
  bool owed = false;         ///< it has sent something that is not answered yet
  weights_met met;           ///< to be sent with the next weights
  kept_answer answer{};      ///< the last one; empty unless the run needs it again when it is resumed
  bool returns = false;      ///< it took part when this state was kept, and comes back
  worker_account account;
  /// The gradient is judged, or will be next.
  void note_trained(const gradient_header& x) {
    batches = x.batches;
    samples = x.samples;
  }
  /// The gradient is judged now. Returns of how many samples it is.
  /// One of an incarnation that another has replaced has what is known of it.
  std::uint64_t take_samples(const gradient_header& x) {
    if (x.id.incarnation != incarnation) return x.samples;
    if (x.samples < judged) judged = 0;
    return x.samples - std::exchange(judged, std::max(judged, x.samples));
  }
  void begin(incarnation_number next); ///< the next incarnation counts anew
  /// Ends the wait. Returns how long its gradient stayed, if it has one. `by_others`: another one ended it.
  std::optional<stay_at_shard> end_wait(instant now, bool by_others, instant barrier_opened);
};

/// What a shard knows of all workers of the run.
/// Guarantees  each gradient is admitted at most once, and none of another run or of a replaced incarnation.
class worker_slots {
public:
  /// Ranks from `workers` to `slots` - 1 take no part until they join.
  worker_slots(std::uint32_t workers, std::uint32_t slots, run_id run);

  worker_slot& operator[](rank worker) { return slots_[worker.value]; }
  std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
  std::span<const worker_slot> all() const noexcept { return slots_; } ///< by rank
  /// The ranks of which something may be known: those of the beginning, and all up to the last that joined.
  std::uint32_t used() const noexcept { return used_; }
  /// Whether the rank has joined as an earlier incarnation, which has not left.
  bool is_replaced_by(rank worker, incarnation_number incarnation) const {
    if (worker.value >= slots_.size()) return false;
    const worker_slot& w = slots_[worker.value];
    return w.here && incarnation > w.incarnation;
  }
  /// Notes that a worker takes part. False: no such rank, it has left, or a later one is here.
  bool join(rank worker, incarnation_number incarnation);
  /// Whether such a gradient counts: it is new, of this run, and of a worker's present incarnation.
  bool awaits(const gradient_id& id) const;
  void admit(const push_gradient& x, instant now);
  /// False: it has left before, a later one has joined, or there is no such rank. Its gradients are kept.
  bool leave(rank worker, incarnation_number incarnation);

  // What becomes of a worker's gradient, for its ledger.
  void produce(rank worker); ///< it is judged now
  void apply(rank worker) {
    ++slots_[worker.value].account.ledger.applied;
    ++applied_;
  }
  void merge(rank worker) {
    ++slots_[worker.value].account.ledger.merged;
    ++merged_;
  }
  /// Only the incarnation that sent a gradient of this gap is told.
  void discard(rank worker, std::uint64_t gap, const std::string& reason, incarnation_number of);
  void discard_unjudged(rank worker, std::uint64_t gap, const std::string& reason) {
    produce(worker);
    discard(worker, gap, reason, slots_[worker.value].incarnation);
  }
  void lose_unjudged(rank worker) {
    produce(worker);
    ++slots_[worker.value].account.ledger.lost;
  }
  /// The sums over all ledgers, of a shard with this version.
  shard_counts counts(shard_index shard, version_number version) const {
    return {shard, version, produced_, discarded_, applied_, merged_};
  }

  /// A policy begins for the workers that are `present`, by rank. Each waits from now on.
  void begin_policy(std::span<const std::uint8_t> present, instant now);
  void wait(rank worker, instant since) {
    slots_[worker.value].waits_since = since;
    may_wait_[worker.value / 64] |= std::uint64_t{1} << worker.value % 64;
  }
  /// Calls f(rank) for each worker that waits, by rank. The time does not grow with those that do not.
  template <class F>
  void each_waiting(F f);
  bool all_wait() const {
    return std::ranges::none_of(slots_, [](const worker_slot& worker) {
      return worker.in_policy && !worker.left && !worker.waits_since;
    });
  }

  /// Writes or reads what is known of each worker. Points in time are not kept. When it is read, no worker
  /// has joined yet. The snapshots are those of `of`. `all_return`: workers that had left come back as well.
  /// Errors  archive_error, also for another number of workers.
  void keep(archive& a, shard& of, bool all_return);
  void add_up_ledgers(); ///< after ledgers were changed otherwise than above

private:
  run_id run_;
  std::vector<worker_slot> slots_; ///< by rank
  std::uint32_t used_;
  std::vector<std::uint64_t> may_wait_; ///< a bit for each rank: all that wait, and some that no longer do
  // Of all ledgers. They are told hundreds of times in a pass over the workers.
  std::uint64_t produced_ = 0;
  std::uint64_t applied_ = 0;
  std::uint64_t merged_ = 0;
  std::uint64_t discarded_ = 0;
};

/// The ranks whose gradients of the old policy are not all taken, so that `next` cannot begin.
std::vector<std::uint32_t> awaited_before(const switch_policy& next, std::span<const worker_slot> workers);

template <class F>
void worker_slots::each_waiting(F f) {
  for (std::size_t word = 0; word < may_wait_.size(); ++word)
    for (std::uint64_t left = may_wait_[word]; left != 0; left &= left - 1) {
      const auto r = static_cast<std::uint32_t>(64 * word + static_cast<std::size_t>(std::countr_zero(left)));
      if (slots_[r].waits_since) f(rank{r});
      if (!slots_[r].waits_since) may_wait_[word] &= ~(left & -left);
    }
}

} // namespace mailgrad
