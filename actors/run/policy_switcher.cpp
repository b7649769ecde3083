#include <mailgrad/actors/run/policy_switcher.hpp>

namespace mailgrad {

policy_switcher::policy_switcher(caf::event_based_actor* self, std::vector<scheduled_policy> schedule,
                                 std::uint32_t workers, std::uint32_t slots, std::vector<caf::actor> shards,
                                 caf::actor feeder, std::shared_ptr<const time_source> time,
                                 const std::vector<recorded_switch>* replayed, caf::actor recorder)
    : actor_part(self), planned_(schedule.begin() + 1, schedule.end()),
      policy_(schedule.front().policy.text()), workers_(slots), shards_(std::move(shards)),
      feeder_(std::move(feeder)), time_(std::move(time)), lost_(shards_.size()),
      recorder_(std::move(recorder)) {
  for (std::uint32_t r = workers; r < slots; ++r) workers_[r].gone = true;
  if (!replayed) return;
  replayed_ = *replayed;
  planned_.clear();
  for (const recorded_switch& s : replayed_) planned_.push_back({planned_.size() + 1, {s.policy, slots}});
}

kept_schedule policy_switcher::schedule() const {
  kept_schedule now{policy_, {}, {}, done_};
  for (const asked_switch& s : waiting_)
    if (s.held_at > 0)
      now.planned.emplace_back(s.held_at, s.policy.text());
    else
      now.asked.emplace_back(s.policy.text(), s.why);
  for (const scheduled_policy& s : planned_) now.planned.emplace_back(s.from_step, s.policy.text());
  return now;
}

/// The recorded switches that are done are not made again.
void policy_switcher::resume(const kept_schedule& from, std::uint64_t steps_before) {
  policy_ = from.policy;
  before_ = steps_before;
  done_ = from.done;
  if (!replayed_.empty()) std::erase_if(planned_, [&](const auto& s) { return s.from_step <= done_.size(); });
  for (const auto& [policy, why] : from.asked)
    waiting_.push_back({{policy, static_cast<std::uint32_t>(workers_.size())}, why, 0, time_->now()});
}

void policy_switcher::on_step(const step_reached& x) {
  if (planned_.empty() || planned_.front().from_step != x.step) return;
  const std::string why =
      replayed_.empty() ? fmt::format("planned for step {}", x.step) : replayed_[x.step - 1].why;
  waiting_.push_back({planned_.front().policy, why, x.step, time_->now()});
  planned_.pop_front();
  begin_next();
}

/// The feeder may hold workers already, for a switch that is held back itself.
void policy_switcher::begin_next() {
  if (current_ || waiting_.empty()) return;
  free_credit();
  if (!what_holds_back().empty()) return;
  current_ = std::move(waiting_.front());
  waiting_.pop_front();
  ++epoch_.value;
  all_paused_ = false;
  begun_ = time_->now();
  switched_ = lost_;
  for (worker& w : workers_) w.paused.reset();
  for (std::uint32_t r = 0; r < workers_.size(); ++r)
    if (workers_[r].device && !workers_[r].gone && takes_part(r)) send(workers_[r].device, pause_order());
  switch_if_all_paused();
}

void policy_switcher::on_joined(rank joined, const caf::actor& device, incarnation_number incarnation) {
  worker& w = workers_[joined.value];
  w.device = device;
  w.incarnation = incarnation;
  w.gone = false;
  if (current_ && !all_paused_ && takes_part(joined.value)) send(device, pause_order());
  begin_next();
}

void policy_switcher::on_gone(rank gone, std::uint64_t batches) {
  worker& w = workers_[gone.value];
  w.gone = true;
  w.batches = std::max(w.batches, batches);
  switch_if_all_paused();
  begin_next();
}

void policy_switcher::on_paused(const worker_paused& x) {
  if (!current_ || x.epoch != epoch_ || x.worker.value >= workers_.size()) return;
  worker& w = workers_[x.worker.value];
  if (x.incarnation != w.incarnation) return; // another has taken its place since
  w.paused = x.step;
  w.batches = x.batches;
  switch_if_all_paused();
}

void policy_switcher::switch_if_all_paused() {
  if (!current_ || all_paused_) return;
  if (all_gone()) return take_back();
  if (!std::ranges::all_of(workers_, [](const worker& w) { return w.gone || w.paused; })) return;
  all_paused_ = true;
  trained_ = before_;
  for (const worker& w : workers_) trained_ += w.batches;
  switch_policy order{epoch_, current_->policy.text(), {}, {}, {}};
  for (const worker& w : workers_) {
    order.steps.push_back(w.paused.value_or(step_number{}));
    order.present.push_back(w.gone ? 0 : 1);
    order.incarnations.push_back(w.incarnation);
  }
  note_switch();
  send(feeder_, go_on_dealing{current_->policy.traits().deals_by_rank, current_->held_at});
  for (std::size_t i = 0; i < shards_.size(); ++i)
    if (!lost_[i]) send(shards_[i], order);
  end_if_all_switched();
}

void policy_switcher::note_switch() {
  if (!recorder_) return;
  recorded_switch noted{current_->policy.text(), current_->why, {}, {}};
  for (const worker& w : workers_) {
    noted.batches.push_back(w.gone ? 0 : w.batches);
    noted.present.push_back(w.gone ? 0 : 1);
  }
  send(recorder_, switch_noted{std::make_shared<recorded_switch>(std::move(noted))});
}

void policy_switcher::end_if_all_switched() {
  if (!current_ || !all_paused_ || std::ranges::count(switched_, false) > 0) return;
  const std::string before = std::exchange(policy_, current_->policy.text());
  if (!all_gone()) done_.push_back({trained_, before, policy_, current_->why, begun_, time_->now()});
  current_.reset();
  begin_next();
}

std::optional<wait_reason> policy_switcher::blocked_on(const slot_table& slots) const {
  if (!current_ && waiting_.empty()) return std::nullopt;
  const instant now = time_->now();
  const asked_switch& next = current_ ? *current_ : waiting_.front();
  const std::string what = "the switch from " + policy_ + " to " + next.policy.text() + " waits for ";
  if (!current_) return wait_reason{what + what_holds_back(), (now - next.asked).count()};
  const auto last_heard = [&](std::uint32_t r) { return slots.heard(r); };
  const auto awaited =
      numbers_where(all_paused_ ? switched_.size() : workers_.size(), [this](std::uint32_t i) {
        return all_paused_ ? !switched_[i] : !workers_[i].gone && !workers_[i].paused;
      });
  return wait_reason{what + (all_paused_ ? listed("shard", awaited)
                                         : listed_with_last_words("worker", awaited, now, last_heard)),
                     (now - begun_).count()};
}

} // namespace mailgrad
