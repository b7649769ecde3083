#pragma once

#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/shard/gradient_order.hpp>

namespace mailgrad {

struct recorded_incarnation {
  incarnation_number incarnation{};
  std::size_t first = 0;      ///< its first batch among those of its rank
  std::size_t end = 0;        ///< behind its last one
  std::uint64_t switches = 0; ///< of the policy that were made before it joined
  bool late = false;          ///< it took a slot while the run went on
  bool cut = false; ///< it was lost or left early: a shard may lack its joining or its last gradients
};

/// Who took part in a recorded run: the incarnations of each worker, one after the other.
/// Threads  a value like any other.
class recorded_incarnations {
public:
  explicit recorded_incarnations(const recording& r);

  std::size_t ranks() const noexcept { return incarnations_.size(); }
  /// Those of a rank, in their order; none of a slot that stayed empty.
  std::span<const recorded_incarnation> of(std::size_t rank) const { return incarnations_[rank]; }
  /// Null if that incarnation took no part.
  const recorded_incarnation* find(rank worker, incarnation_number incarnation) const;
  /// Who of a rank was there before the switch after so many others: the last to join; null if nobody had.
  const recorded_incarnation* before_switch(std::size_t rank, std::uint64_t switches) const;
  /// How many batches of a rank had been trained before this switch, of which `switches` were made before.
  /// Who was lost soon after it may have trained one that nobody knew of; it does not count.
  std::uint64_t batches_before(const recorded_switch& s, std::uint64_t switches, std::size_t rank) const {
    const recorded_incarnation* one = before_switch(rank, switches);
    return one != nullptr && one->cut ? std::min<std::uint64_t>(s.batches[rank], one->end) : s.batches[rank];
  }
  /// The last step that any shard had taken before this switch of who was there; 0: none.
  step_number step_before(std::uint64_t switches, std::size_t rank) const {
    return steps_.at(switches)[rank];
  }
  /// Whether anybody was lost, left early, came late or came back.
  bool any_change() const noexcept { return any_change_; }

private:
  void add_those_with_batches(const recording& r);
  void add_those_that_joined(const recording& r);
  void add_those_that_only_left(const recording& r);
  void note_who_was_cut(const recording& r);
  void add_steps_before_switches(const recording& r);
  recorded_incarnation& get(rank worker, incarnation_number incarnation);

  std::vector<std::vector<recorded_incarnation>> incarnations_; ///< by rank
  std::vector<std::vector<step_number>> steps_;                 ///< before each switch, by rank
  bool any_change_ = false;
};

recorded_order order_of(const recording& r, shard_index shard);

/// Deals each worker the batches of a recording, to each of its incarnations those that this one had trained.
/// It holds the batches after a switch of policy back until the switch is complete. So every worker is paused
/// after the same step as in the recorded run, although a worker asks one batch ahead.
class recorded_batches {
public:
  explicit recorded_batches(std::shared_ptr<const recording> what)
      : what_(std::move(what)), incarnations_(*what_), now_(incarnations_.ranks()),
        dealt_(incarnations_.ranks()), at_switch_(incarnations_.ranks()), gone_(incarnations_.ranks()) {
    for (std::uint32_t r = 0; r < what_->header.workers; ++r) now_[r] = incarnation_number{};
  }
  /// Notes that a later incarnation asks from now on, or the first one of a slot that was empty.
  void begin(rank worker, incarnation_number incarnation);
  /// Whether the worker must wait for the next switch before it is dealt a batch or told the end.
  bool holds(rank worker) const {
    const std::size_t r = worker.value;
    return switch_left() && takes_part(r) &&
           dealt_[r] >= incarnations_.batches_before(what_->end.switches[passed_], passed_, r);
  }
  /// The last step that any shard had of the worker before that switch.
  step_number step_before_switch(rank worker) const {
    return incarnations_.step_before(passed_, worker.value);
  }
  void wait(rank worker) { at_switch_[worker.value] = true; }
  void leave(rank worker) { gone_[worker.value] = true; } ///< notes that the worker will not ask again
  /// The number of the worker's next batch; none after the last one of its incarnation.
  std::optional<std::uint64_t> next(rank worker);
  /// The number of the next switch, from 1, once all workers that take part have reached it. Returned once.
  std::optional<std::uint64_t> reached_switch();
  /// Notes that this switch is complete. Workers that wait ask again.
  void pass_switch() {
    ++passed_;
    at_switch_.assign(at_switch_.size(), false);
  }
  std::uint64_t switches_passed() const noexcept { return passed_; }
  /// Goes on where each worker has trained so many batches, by rank, and so many switches are complete.
  void go_on_from(std::span<const std::uint64_t> trained, std::uint64_t switches) {
    dealt_.assign(trained.begin(), trained.end());
    dealt_.resize(gone_.size());
    passed_ = told_ = switches;
  }

private:
  bool switch_left() const { return passed_ < what_->end.switches.size(); }
  bool is_at_switch(std::size_t r) const {
    return what_->end.switches[passed_].present[r] == 0 || (takes_part(r) && (at_switch_[r] || gone_[r]));
  }
  /// Whether who asks now as this rank takes part in the next switch, and not an incarnation after it.
  bool takes_part(std::size_t r) const {
    if (what_->end.switches[passed_].present[r] == 0 || !now_[r]) return false;
    const recorded_incarnation* one = incarnations_.before_switch(r, passed_);
    return one != nullptr && one->incarnation == *now_[r];
  }

  std::shared_ptr<const recording> what_;
  recorded_incarnations incarnations_;
  std::vector<std::optional<incarnation_number>> now_; ///< by rank: who asks
  std::vector<std::uint64_t> dealt_;                   ///< by rank
  std::vector<bool> at_switch_;                        ///< by rank
  std::vector<bool> gone_;                             ///< by rank
  std::uint64_t passed_ = 0;
  std::uint64_t told_ = 0;
};

/// The slots that workers took while a recorded run went on: who comes as each rank, before which switch.
/// Threads  those of the coordinator that owns it.
class recorded_slots {
public:
  recorded_slots() = default; ///< nobody comes
  explicit recorded_slots(const recorded_incarnations& of) : slots_(of.ranks()) {
    for (std::size_t r = 0; r < slots_.size(); ++r)
      std::ranges::copy_if(of.of(r), std::back_inserter(slots_[r].incarnations), &recorded_incarnation::late);
  }
  bool any() const {
    return std::ranges::any_of(slots_, [](const slot& s) { return s.next < s.incarnations.size(); });
  }
  /// Whether somebody comes before the next switch, when the policy has switched so often.
  bool any_due(std::uint64_t switches) const {
    return std::ranges::any_of(slots_, [=](const slot& s) { return is_due(s, switches); });
  }
  /// The incarnation to bring now as this rank, whose slot is free; none if none is due or it was brought.
  std::optional<incarnation_number> bring(rank worker, std::uint64_t switches);
  /// Whether this incarnation was brought and has no slot yet.
  bool was_brought(rank worker, incarnation_number incarnation) const {
    if (worker.value >= slots_.size()) return false;
    const slot& s = slots_[worker.value];
    return s.brought && s.incarnations[s.next].incarnation == incarnation;
  }
  /// One that was brought and has no slot yet; none if there is none.
  std::optional<std::pair<rank, incarnation_number>> brought() const;
  void take(rank worker, incarnation_number incarnation); ///< it has its slot
  void clear() { slots_.clear(); }                        ///< nobody comes any more

private:
  struct slot {
    std::vector<recorded_incarnation> incarnations; ///< that are late
    std::size_t next = 0;
    bool brought = false; ///< the next one is on its way
  };
  static bool is_due(const slot& s, std::uint64_t switches) {
    return s.next < s.incarnations.size() && s.incarnations[s.next].switches <= switches;
  }

  std::vector<slot> slots_; ///< by rank
};

} // namespace mailgrad
