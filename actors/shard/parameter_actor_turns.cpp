#include <mailgrad/actors/shard/parameter_actor.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

// What a parameter actor does when a turn of the order has come: it judges a gradient, and then updates and
// answers whoever may start.

namespace mailgrad {
using messaging::drop_others, messaging::hold_others, messaging::on, messaging::send;

/// Stops at an update with helpers; what is ready then waits until that has ended.
void parameter_actor::take_what_is_ready() {
  while (!updater_.under_way()) {
    const auto ready = order_.next();
    if (!ready) break;
    if (ready->turn.what == order_entry::kind::left)
      let_go(ready->turn.worker, ready->turn.life(), ready->gradient.has_value());
    else if (ready->turn.what == order_entry::kind::joined)
      greet(ready->turn.worker, ready->turn.life());
    else if (ready->turn.what == order_entry::kind::kept)
      cut_.follow(ready->turn.step.value);
    else if (ready->turn.what == order_entry::kind::missed)
      take_missed(ready->turn, ready->gradient);
    else if (ready->turn.what == order_entry::kind::closed)
      take_closed(ready->turn);
    else if (ready->gradient)
      take(*ready->gradient, ready->turn.arrived);
    else
      take_lost(ready->turn);
  }
  switch_if_all_taken();
  watch_window();
  report_cut();
  tell_awaited();
}

/// The first shard says for all that follow it when a batch is closed, and a recording for those of a replay.
void parameter_actor::watch_window() {
  if (!order_.is_followed()) window_.watch(policy_->closes_at());
}

void parameter_actor::on_window_over(const window_over& x) {
  order_.close(x.moment);
  take_what_is_ready();
}

/// A batch that was applied before its time was over is not closed any more.
void parameter_actor::take_closed(const order_entry& turn) {
  if (!order_.is_followed() && policy_->closes_at() != turn.arrived) return;
  order_.announce(turn);
  policy_->close();
  apply_batch_if_complete();
  release();
}

decision parameter_actor::judge(const order_entry& turn) {
  const version_number now = options_.weights->version();
  return policy_->judge({turn.worker, turn.step, {now.value - turn.gap}, now, turn.arrived});
}

/// `arrived` is the time by which the gradient is judged, from the shard whose order is followed.
void parameter_actor::take(const push_gradient& x, std::int64_t arrived) {
  const gradient_header& g = x.header;
  const order_entry turn{order_entry::kind::gradient, g.id.worker, g.id.step,
                         options_.weights->version() - g.version_read, arrived};
  order_.announce(turn);
  worker_slot& worker = workers_[g.id.worker];
  const bool waits = worker.device ? worker.life == g.id.life : worker.returns;
  if (worker.life == g.id.life && g.batches > worker.batches) worker.note_trained(g);
  if (waits) workers_.wait(g.id.worker, worker.arrived);
  workers_.produce(g.id.worker);
  watch_.idle(!updates_.nothing_waits(), worker.arrived, order_.is_followed());
  if (!order_.is_followed()) taking_ = g.id.worker;
  const std::uint64_t samples = worker.take_samples(g);
  const version_number before = options_.weights->version();
  const decision d = judge(turn);
  switch (d.what) {
  case verdict::apply:
    update(updates_.add(x));
    break;
  case verdict::merge:
  case verdict::defer:
    keep_waiting(x, samples, d.what);
    give_places();
    break;
  case verdict::discard:
    workers_.discard(g.id.worker, updates_.gap_of(g), std::string(d.reason), g.id.life);
    watch_.moment(trace_kind::discard, g, d.reason);
    break;
  }
  if (updater_.under_way()) return; // the answers follow the update
  taking_.reset();
  if (policy_->holds_until_update() && options_.weights->version() == before)
    start_if_due(g.id.worker, g.id.worker);
  else
    release(g.id.worker);
}

void parameter_actor::keep_waiting(const push_gradient& x, std::uint64_t samples, verdict what) {
  if (what == verdict::defer && !policy_->has_rounds())
    throw std::logic_error(
        fmt::format("policy '{}' defers a gradient to its next round, and has no rounds", policy_->name()));
  if (what == verdict::defer) return updates_.add_to_next_round(x);
  if (policy_->has_rounds())
    updates_.add_to_round(x);
  else if (policy_->takes_first() > 0)
    updates_.add_to_queue(x, samples);
  else
    updates_.add_to_batch(x, samples);
  apply_batch_if_complete();
}

/// The first shard got a gradient that was lost on the way to this one. Its place in the batch stays empty,
/// so that the versions of all shards stay equal. In a replay that is ended early, an empty batch makes no
/// version.
void parameter_actor::take_lost(const order_entry& turn) {
  if (!options_.replayed) {
    order_.announce({order_entry::kind::missed, turn.worker, turn.step, turn.gap, turn.arrived});
    return judge_without(turn);
  }
  const verdict what = judge(turn).what;
  note_lost(what);
  if (what == verdict::merge) apply_what_is_there();
  release();
}

/// An update without its only gradient is made as of a gradient of zeros, so that the versions of all shards
/// stay equal.
void parameter_actor::judge_without(const order_entry& turn) {
  const verdict what = judge(turn).what;
  note_lost(what);
  if (what == verdict::merge) apply_batch_if_complete();
  if (what == verdict::apply) {
    updates_.add_nothing();
    update(1);
  }
  release();
}

/// In a replay the gradient comes that was lost in the recorded run. Its worker need not wait.
void parameter_actor::take_missed(const order_entry& turn, const std::optional<push_gradient>& late) {
  order_.announce(turn);
  order_entry here = turn;
  if (late) {
    here.gap = options_.weights->version() - late->header.version_read;
    worker_slot& worker = workers_[turn.worker];
    workers_.lose_unjudged(turn.worker);
    if (worker.device && worker.life == late->header.id.life) send_home(worker);
  }
  judge_without(here);
}

/// A switch lets no gradient of another epoch through. If one comes nevertheless, it is not judged, since it
/// was computed under another policy.
void parameter_actor::drop_stray(const gradient_header& x) {
  worker_slot& worker = workers_[x.id.worker];
  workers_.discard_unjudged(x.id.worker, updates_.gap_of(x), "other epoch");
  watch_.moment(trace_kind::discard, x, "other epoch");
  workers_.wait(x.id.worker, worker.arrived);
  release();
}

/// A shard that judges on its own also tells its followers that the worker has left. `unjudged`: a gradient
/// has arrived whose turn did not come before.
void parameter_actor::let_go(rank worker, incarnation life, bool unjudged) {
  worker_slot& gone = workers_[worker];
  gone.account.unjudged += unjudged ? 1 : 0;
  if (order_.was_cut(worker, life) && gone.device && gone.life == life && gone.owed) send_home(gone);
  if (!gone.in_policy) return;
  gone.in_policy = false;
  order_.announce(order_entry::of(order_entry::kind::left, worker, life));
  policy_->leave(worker);
  begin_round();
  apply_batch_if_complete();
  give_places();
  updates_.leave(worker);
  release();
}

/// Its place in the queue or in its round stays empty, if there is one.
void parameter_actor::note_lost(verdict what) {
  if (what == verdict::defer) updates_.add_lost_to_next_round();
  if (what != verdict::merge) return;
  if (policy_->has_rounds())
    updates_.add_lost_to_round();
  else if (policy_->takes_first() > 0)
    updates_.add_lost_to_queue();
}

void parameter_actor::begin_round() {
  if (policy_->has_rounds()) updates_.begin_round(policy_->rounds_over());
}

/// Whether more than one update may be due: the last worker leaves a queue behind, or two rounds.
bool parameter_actor::makes_several() const { return policy_->takes_first() > 0 || policy_->has_rounds(); }

/// No update is made of an empty queue, whatever a policy of a user's own says.
void parameter_actor::apply_batch_if_complete() {
  const bool several = makes_several();
  while (policy_->batch_complete() && !updater_.under_way() && !(several && updates_.nothing_waits())) {
    apply_batch();
    if (!several) return;
  }
}

/// Only what a batch that is not complete has can be of use before it is.
void parameter_actor::give_places() {
  const auto next = policy_->first_awaited();
  if (next && !updater_.under_way() && !updates_.nothing_waits()) updates_.give_places(*next);
}

void parameter_actor::apply_batch() {
  barrier_opened_ = options_.time->now();
  if (policy_->has_rounds())
    updates_.add_round();
  else if (const std::size_t first = policy_->takes_first())
    updates_.add_first(first);
  else
    updates_.add_batch();
  update(1);
}

/// In a replay that is ended early a batch may be of lost gradients alone.
void parameter_actor::apply_what_is_there() {
  if (options_.replayed && updates_.no_gradient_waits() && policy_->batch_complete())
    drop_batch();
  else
    apply_batch_if_complete();
}

/// The batch is of lost gradients alone, and makes no version.
void parameter_actor::drop_batch() {
  updates_.drop_lost(policy_->has_rounds() ? 0 : policy_->takes_first());
  policy_->batch_applied();
  begin_round();
}

void parameter_actor::update(double rate) {
  if (!may_ask_for_help()) {
    updater_.update_alone(rate);
    return note_update();
  }
  updater_.ask_for_help(rate);
  hold_others(self_);
  self_->become(caf::keep_behavior, updating());
  compute_part();
}

/// False if a worker may be computing on another thread, which would get its answer late.
bool parameter_actor::may_ask_for_help() const {
  return updater_.divides() && taking_ && workers_.all_wait() && !options_.resumed;
}

caf::behavior parameter_actor::updating() {
  return {
      on(self_, [this](const go_on&) { compute_part(); }),
      on(self_, [this](const update_helped&) { end_update_with_help(); }),
      on(self_,
         [this](const update_failed& x) { updater_.fail(x.why); }), // as if this actor had computed the part
  };
}

void parameter_actor::compute_part() {
  if (updater_.compute_part()) end_update_with_help();
}

void parameter_actor::end_update_with_help() {
  self_->unbecome();
  drop_others(self_);
  updater_.end();
  note_update();
  release(std::exchange(taking_, std::nullopt));
  switch_if_all_taken();
  watch_window();
  tell_awaited();
}

void parameter_actor::note_update() {
  if (!updates_.note_version()) return;
  policy_->batch_applied();
  begin_round();
}

void parameter_actor::release(std::optional<rank> just_taken) {
  workers_.each_waiting([&](rank r) { start_if_due(r, just_taken); });
}

/// Sends a worker that waits the present weights, if the policy lets it start, or those that it had once
/// more.
void parameter_actor::start_if_due(rank waiting, std::optional<rank> just_taken) {
  worker_slot& worker = workers_[waiting];
  if (!worker.waits_since || !policy_->may_start(waiting)) return;
  worker.owed = false;
  const auto stay = worker.end_wait(options_.time->now(), just_taken != waiting, barrier_opened_);
  if (!policy_->has_rounds() || policy_->renews(waiting) || !worker.answer.values)
    worker.answer = {options_.weights->version(), updates_.weights_for(waiting), {}};
  worker.answer.met = std::exchange(worker.met, {});
  if (!worker.returns) answer(worker, stay);
}

} // namespace mailgrad
