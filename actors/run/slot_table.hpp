#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>

namespace mailgrad {

/// Who takes part in a run: one slot for each rank. The workers that a run begins with are expected from the
/// start. Others join later, and a worker that has left or is lost may come back under a higher incarnation.
///
///     empty or expected --take()--> taken --leave()--> left --take(), a later incarnation--> taken
class slot_table {
public:
  slot_table(std::uint32_t workers, std::uint32_t slots) : used_(workers), slots_(slots) {
    for (std::uint32_t r = 0; r < workers; ++r) slots_[r].is = state::expected;
  }

  /// Whether this worker may take its slot now, or as soon as the earlier incarnation has left.
  bool may_take(rank worker, incarnation_number incarnation) const {
    if (worker.value >= slots_.size()) return false;
    const slot& s = slots_[worker.value];
    return s.is == state::empty || s.is == state::expected || incarnation > s.incarnation;
  }
  void take(rank worker, incarnation_number incarnation, const caf::actor& device) {
    slots_[worker.value] = {state::taken, device, incarnation, false, {}};
    used_ = std::max(used_, worker.value + 1);
  }
  void leave(rank worker, bool lost) {
    slot& s = slots_[worker.value];
    s.is = state::left;
    s.lost = lost;
    s.device = nullptr;
  }

  /// Whether this incarnation takes part, or is expected to.
  bool is_of(rank worker, incarnation_number incarnation) const {
    return is_present(worker) && incarnation_of(worker) == incarnation;
  }
  /// Whether this incarnation took part, and no later one has come.
  bool has_left(rank worker, incarnation_number incarnation) const {
    return worker.value < slots_.size() && slots_[worker.value].is == state::left &&
           incarnation_of(worker) == incarnation;
  }
  bool is_present(rank worker) const {
    if (worker.value >= slots_.size()) return false;
    const state is = slots_[worker.value].is;
    return is == state::expected || is == state::taken;
  }
  bool anybody() const {
    return std::ranges::any_of(slots_,
                               [](const slot& s) { return s.is == state::expected || s.is == state::taken; });
  }
  /// Whether every worker that took part was lost at last.
  bool all_lost() const {
    return std::ranges::all_of(slots_, [](const slot& s) { return s.is == state::empty || s.lost; });
  }

  /// A message of this worker has come at this time.
  void hear(rank worker, instant now) {
    if (worker.value < slots_.size()) slots_[worker.value].heard = now;
  }
  /// A message that names this worker has come from this device, which is that of another worker if a slot
  /// was taken anew.
  void hear(const caf::actor& device, rank worker, instant now) {
    if (device && worker.value < slots_.size() && slots_[worker.value].device == device)
      return hear(worker, now); // to search among thousands of slots takes longer than a step
    hear(device, now);
  }
  void hear(const caf::actor& device, instant now) {
    for (slot& s : slots_)
      if (device && s.device == device) s.heard = now;
  }
  /// When the last message of this worker came; nothing if none has come.
  std::optional<instant> heard(std::uint32_t r) const { return slots_[r].heard; }

  /// Null if it has not joined or has left.
  const caf::actor& device(rank worker) const { return slots_[worker.value].device; }
  /// Of the worker that joined last.
  incarnation_number incarnation_of(rank worker) const { return slots_[worker.value].incarnation; }
  std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
  /// The ranks that took part or were expected to: all up to the highest.
  std::uint32_t used() const noexcept { return used_; }

private:
  enum class state : std::uint8_t { empty, expected, taken, left };
  struct slot {
    state is = state::empty;
    caf::actor device{};
    incarnation_number incarnation{};
    bool lost = false;
    std::optional<instant> heard{};
  };

  std::uint32_t used_;
  std::vector<slot> slots_; ///< by rank
};

/// The coordinator's part in dealing again what a lost worker was dealt. Only the shards know what they took
/// of it, so it asks them all, and tells the feeder the most that any of them has taken.
///
///     coordinator --share_lost--> feeder, then --worker_left, tell_trained--> every shard
///     every shard --trained_reported--> coordinator --deal_again--> feeder --share_ended--> coordinator
///
/// A batch whose gradient some shard has judged is not dealt again, although another shard may lack that
/// gradient. So a shard applies the work on a batch at most once.
class lost_shares : messaging::actor_part {
public:
  lost_shares(caf::event_based_actor* self, std::vector<caf::actor> shards, caf::actor feeder,
              std::shared_ptr<const time_source> time)
      : actor_part(self), shards_(std::move(shards)), gone_(shards_.size()), feeder_(std::move(feeder)),
        time_(std::move(time)) {}

  /// This incarnation is lost. Returns an answer that knows of no batch if there is no shard to ask.
  /// The feeder first: a shard that goes on without the worker lets others ask for batches at once.
  std::optional<trained_reported> begin(const worker_left& lost) {
    send(feeder_, share_lost{lost.worker, lost.incarnation});
    for (const caf::actor& shard : shards_) {
      send(shard, lost);
      send(shard, tell_trained{lost.worker, lost.incarnation});
    }
    const trained_reported nothing{{}, lost.worker, lost.incarnation};
    if (nobody_knows()) return nothing;
    open_.push_back({nothing, gone_, time_->now()});
    return std::nullopt;
  }
  /// Returns the answer of all shards together, when the last of them is here.
  std::optional<trained_reported> take(const trained_reported& x) {
    const auto of = std::ranges::find_if(open_, [&](const question& q) {
      return q.most.worker == x.worker && q.most.incarnation == x.incarnation;
    });
    if (of == open_.end() || x.shard.value >= of->answered.size()) return std::nullopt;
    of->answered[x.shard.value] = true;
    of->most.batches = std::max(of->most.batches, x.batches);
    of->most.gradients = std::max(of->most.gradients, x.gradients);
    of->most.samples = std::max(of->most.samples, x.samples);
    if (std::ranges::count(of->answered, false) > 0) return std::nullopt;
    const trained_reported most = of->most;
    open_.erase(of);
    return most;
  }
  /// A shard is lost, and tells nothing more. Returns the questions that the others have answered.
  std::vector<trained_reported> on_shard_lost(shard_index shard) {
    gone_[shard.value] = true;
    std::vector<trained_reported> answered;
    for (question& q : open_) {
      q.answered[shard.value] = true;
      if (std::ranges::count(q.answered, false) == 0) answered.push_back(q.most);
    }
    std::erase_if(open_, [](const question& q) { return std::ranges::count(q.answered, false) == 0; });
    return answered;
  }
  /// Tells the feeder what is known of an incarnation. Called once for each answer that is returned above.
  void tell_feeder(const trained_reported& most) {
    send(feeder_, deal_again{most.worker, most.incarnation, most.batches});
    unended_.push_back({most.worker, most.incarnation, time_->now()});
  }

  bool any() const noexcept { return !open_.empty(); }
  /// The feeder has said what became of the batches of an incarnation. False: it was not asked.
  bool take(const share_ended& x) {
    return std::erase_if(unended_, [&](const unended& w) {
             return w.worker == x.worker && w.incarnation == x.incarnation;
           }) > 0;
  }
  /// Whether it still has to say so of any.
  bool awaits_feeder() const noexcept { return !unended_.empty(); }
  /// Whether every shard is lost, so that nobody can say what a lost worker has done.
  bool nobody_knows() const { return !gone_.empty() && std::ranges::find(gone_, false) == gone_.end(); }
  /// Whether something is still to be told of an incarnation of this worker.
  bool has(rank worker) const {
    return std::ranges::any_of(open_, [&](const question& q) { return q.most.worker == worker; }) ||
           std::ranges::any_of(unended_, [&](const unended& w) { return w.worker == worker; });
  }
  /// The shards or the feeder that it waits for, in words; nothing if it waits for none.
  std::optional<wait_reason> blocked_on() const {
    if (open_.empty() && unended_.empty()) return std::nullopt;
    if (open_.empty())
      return wait_reason{fmt::format("lost worker {} waits until the feeder says what became of its batches",
                                     unended_.front().worker.value),
                         (time_->now() - unended_.front().asked).count()};
    const question& q = open_.front();
    const auto awaited = numbers_where(q.answered.size(), [&](std::uint32_t s) { return !q.answered[s]; });
    return wait_reason{fmt::format("the batches of lost worker {} wait to hear what {} took of them",
                                   q.most.worker.value, listed("shard", awaited)),
                       (time_->now() - q.asked).count()};
  }

private:
  struct question {
    trained_reported most;      ///< of the answers so far
    std::vector<bool> answered; ///< by shard
    instant asked{0};
  };
  struct unended {
    rank worker;
    incarnation_number incarnation;
    instant asked{0};
  };

  std::vector<caf::actor> shards_;
  std::vector<bool> gone_; ///< by shard
  caf::actor feeder_;
  std::shared_ptr<const time_source> time_;
  std::vector<question> open_;
  std::vector<unended> unended_; ///< of which the feeder is asked what became of their batches
};

} // namespace mailgrad
