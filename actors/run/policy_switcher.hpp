#pragma once

#include <mailgrad/actors/run/slot_table.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

namespace mailgrad {

/// The coordinator's part in a switch of policy: a fence that every worker and every shard passes, one switch
/// after the other. run_messages.hpp draws the protocol.
///
/// In a replay the recorded switches replace the schedule. A switch begins when every worker that takes part
/// is held at the batch before which it was paused in the recorded run. These are paused, and all others end.
/// Who is held has pushed what it kept, of steps of its own, since others may need that to come to the
/// switch.
///
/// Guarantees  every gradient computed under a policy is judged by that policy; under the next, all workers
///             start from the same version of each shard. A worker or shard that dies meanwhile holds up no
///             other actor.
///
///     idle --request, step reached--> pausing --all workers paused or gone--> switching --all shards--> idle
class policy_switcher : messaging::actor_part {
public:
  /// Ranks from `workers` to `slots` - 1 have not joined yet, and no switch waits for them.
  policy_switcher(caf::event_based_actor* self, std::vector<scheduled_policy> schedule, std::uint32_t workers,
                  std::uint32_t slots, std::vector<caf::actor> shards, caf::actor feeder,
                  std::shared_ptr<const time_source> time,
                  const std::vector<recorded_switch>* replayed = nullptr, caf::actor recorder = {});

  /// Goes on where a checkpoint was taken. `schedule` of the constructor then holds what is still planned.
  /// `steps_before` were trained by workers that do not go on.
  void resume(const kept_schedule& from, std::uint64_t steps_before);

  /// Asks the feeder to tell when it holds for a planned switch. Batches that it deals later are trained
  /// after the switch.
  void begin() {
    if (!planned_.empty()) send(feeder_, watch_holds{});
  }

  void request(const request_switch& x) {
    if (stopped_) return;
    waiting_.push_back({{x.policy, static_cast<std::uint32_t>(workers_.size())}, x.why, 0, time_->now()});
    begin_next();
  }
  void on_joined(rank worker, const caf::actor& device, incarnation_number incarnation);
  /// A worker has finished, failed or died; it trained at least `batches`.
  void on_gone(rank worker, std::uint64_t batches);
  /// It has become known what a lost worker had trained. The shards tell of one that was lost before the
  /// switch before they tell that they have switched.
  void on_counted(rank lost, std::uint64_t batches) {
    worker& w = workers_[lost.value];
    const std::uint64_t more = batches - std::min(batches, w.batches);
    w.batches += more;
    if (all_paused_ && !w.paused) trained_ += more;
  }
  void on_step(const step_reached& x);
  void on_paused(const worker_paused& x);
  void on_switched(const policy_switched& x) {
    if (!current_ || x.epoch != epoch_ || x.shard.value >= switched_.size()) return;
    switched_[x.shard.value] = true;
    end_if_all_switched();
  }
  void on_shard_lost(shard_index shard) {
    lost_[shard.value] = true;
    if (!current_) return;
    switched_[shard.value] = true;
    end_if_all_switched();
  }

  /// The present policy; during a switch, the old one.
  const std::string& policy() const noexcept { return policy_; }
  /// Whether a switch is under way or asked for, and somebody is there to make it.
  bool is_switching() const noexcept { return current_ || (!waiting_.empty() && !all_gone()); }

  /// Whether workers are being paused, or shards switch. Then no worker may join.
  bool is_under_way() const noexcept { return current_.has_value(); }
  /// The present epoch; during a switch, the next one.
  policy_epoch epoch() const noexcept { return epoch_; }

  /// From now on shards are told when workers may stand still, since those of other processes wait for their
  /// turns in a sum.
  void share_credit() { shares_credit_ = true; }
  /// A worker stands still, or may soon.
  void free_credit() const {
    for (std::size_t i = 0; shares_credit_ && i < shards_.size(); ++i)
      if (!lost_[i]) send(shards_[i], mailgrad::free_credit{});
  }

  /// Begins no further switch.
  void stop() {
    waiting_.clear();
    planned_.clear();
    stopped_ = true;
  }
  /// Begins no switch until it is called without anybody. `whom` says for whom a switch waits.
  void hold_back(std::string whom) {
    held_back_for_ = std::move(whom);
    begin_next();
  }

  /// The present policy, and the switches that are done, planned and asked for. None is under way.
  kept_schedule schedule() const;

  /// The switches that have ended.
  const std::vector<policy_switch>& done() const noexcept { return done_; }
  /// Whom a switch waits for, in words; nothing if none is under way or asked for.
  std::optional<wait_reason> blocked_on(const slot_table& slots) const;

private:
  struct worker {
    caf::actor device;
    incarnation_number incarnation{};
    bool gone = false;
    std::optional<step_number> paused; ///< its last step, if it is paused for the present switch
    std::uint64_t batches = 0;         ///< trained, as far as is known
  };

  struct asked_switch {
    policy_spec policy;
    std::string why;
    std::uint64_t held_at = 0; ///< the step at which the feeder holds for it; 0: none
    instant asked{0};
  };

  void begin_next();
  pause_worker pause_order() const { return {epoch_, !current_->policy.traits().needs_shards}; }
  /// In a replay a worker that had ended before the recorded switch ends before this one. A pause would hold
  /// it.
  bool takes_part(std::uint32_t r) const {
    return current_->held_at == 0 || replayed_.empty() || replayed_[current_->held_at - 1].present[r] != 0;
  }
  /// Why the next switch does not begin yet, in words; empty if it may.
  std::string what_holds_back() const { return all_gone() ? "a worker" : held_back_for_; }
  void note_switch();
  /// All have gone before they were paused. The switch begins anew with who comes next.
  void take_back() {
    waiting_.push_front(std::move(*current_));
    current_.reset();
    --epoch_.value;
  }
  bool all_gone() const {
    return std::ranges::all_of(workers_, [](const worker& w) { return w.gone; });
  }
  void switch_if_all_paused();
  void end_if_all_switched();

  bool shares_credit_ = false;
  std::deque<scheduled_policy> planned_; ///< still to come, by step
  std::deque<asked_switch> waiting_;     ///< asked for while another switch was under way
  std::string policy_;                   ///< the present one
  std::vector<worker> workers_;          ///< by rank
  std::vector<caf::actor> shards_;
  caf::actor feeder_;
  std::shared_ptr<const time_source> time_;

  std::optional<asked_switch> current_;
  instant begun_{0};
  policy_epoch epoch_;
  bool all_paused_ = false;
  std::uint64_t before_ = 0;   ///< trained by workers that do not go on
  std::uint64_t trained_ = 0;  ///< by all workers when the last of them was paused
  std::vector<bool> switched_; ///< by shard
  std::vector<bool> lost_;     ///< by shard
  std::vector<policy_switch> done_;
  std::vector<recorded_switch> replayed_; ///< empty unless this is a replay with switches
  caf::actor recorder_;                   ///< gets the step of each worker at each switch; may be null
  bool stopped_ = false;
  std::string held_back_for_; ///< whom a switch waits for; empty if for nobody
};

} // namespace mailgrad
