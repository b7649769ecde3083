#include <mailgrad/engine/record/rehearsal.hpp>

#include <algorithm>
#include <utility>

// The shards of a rehearsal. They behave as parameter_actor.

namespace mailgrad {

namespace {

using kind = order_entry::kind;

} // namespace

bool rehearsal::is_ready(const shard& s, const order_entry& t) const {
  const std::uint32_t w = t.worker.value;
  switch (t.what) {
  case kind::joined:
    return workers_[w].begun > 0 && life_of(w).life >= t.life();
  case kind::gradient:
  case kind::missed:
    return s.joined_as[w] && is_now(w, *s.joined_as[w]) && s.arrived[w] == t.step.value;
  case kind::left:
    if (const recorded_life* one = lives_.find(t.worker, t.life()); one && one->cut) return true;
    return workers_[w].gone;
  case kind::closed:
    return true;
  case kind::switched:
  case kind::kept: // stands in no recording
    return s.switches < passed_;
  }
  return false;
}

bool rehearsal::take_turn(std::size_t at) {
  shard& s = shards_[at];
  if (s.next == r_.turns[at].size() || !is_ready(s, r_.turns[at][s.next])) return false;
  const order_entry& t = r_.turns[at][s.next++];
  if (t.what == kind::joined)
    greet(s, t);
  else if (t.what == kind::gradient)
    take_gradient(at, t);
  else if (t.what == kind::missed)
    take_missed(at, t);
  else if (t.what == kind::left)
    let_go(at, t);
  else if (t.what == kind::closed)
    close_batch(s);
  else
    change_policy(s);
  release(at);
  return true;
}

void rehearsal::greet(shard& s, const order_entry& t) {
  const std::uint32_t w = t.worker.value;
  s.joined_as[w] = t.life();
  s.joined[w] = true;
  s.left[w] = false;
  s.waits[w] = is_now(w, t.life()) && !workers_[w].gone;
  if (s.in_policy[w]) return;
  s.in_policy[w] = true;
  s.rule->join(t.worker);
}

void rehearsal::take_gradient(std::size_t at, const order_entry& t) {
  shard& s = shards_[at];
  worker& of = workers_[t.worker.value];
  if (of.taken_as == 0 || of.first_taken.step < t.step) {
    of.first_taken = t;
    of.taken_as = ++gradients_;
    of.batches_in_taken = of.batches; // exact, because the worker waits for this gradient
  }
  const std::uint32_t w = t.worker.value;
  s.arrived[w] = 0;
  s.taken[w] = t.step.value;
  s.waits[w] = true;
  const verdict what = judge(at, t);
  if (what == verdict::apply) ++s.version;
  if (what == verdict::defer) ++s.deferred;
  if (what != verdict::merge) return;
  ++s.pending;
  apply_complete(s);
}

verdict rehearsal::judge(std::size_t at, const order_entry& t) {
  shard& s = shards_[at];
  const std::size_t w = t.worker.value;
  const verdict what = s.rule->judge({t.worker, t.step, s.version_read[w], s.version, t.arrived}).what;
  if (listener_)
    listener_->judged(at, t, what, s.version.value - s.version_read[w].value, workers_[w].batches_in_taken);
  return what;
}

/// The shard judges without the gradient, and the worker need not wait.
void rehearsal::take_missed(std::size_t at, const order_entry& t) {
  shard& s = shards_[at];
  const std::uint32_t w = t.worker.value;
  s.arrived[w] = 0;
  s.taken[w] = t.step.value;
  const verdict what = judge(at, t);
  if (what == verdict::apply) ++s.version;
  note_lost(s, what);
  if (what == verdict::merge) apply_complete(s);
  send_home(at, w);
}

/// The place of a gradient that is lost, in a queue or in its round.
void rehearsal::note_lost(shard& s, verdict what) {
  if (what == verdict::defer) ++s.deferred;
  if (what == verdict::merge && (s.rule->takes_first() > 0 || s.rule->has_rounds())) ++s.pending;
}

/// A worker that was lost gets weights that it does not use. Before a switch of policy it ignores them.
void rehearsal::send_home(std::size_t at, std::uint32_t w) {
  if (shards_[at].switches == passed_ && !workers_[w].answered[at]) answer(at, w);
}

void rehearsal::let_go(std::size_t at, const order_entry& t) {
  shard& s = shards_[at];
  const std::uint32_t w = t.worker.value;
  s.left[w] = true;
  s.waits[w] = false;
  if (is_now(w, t.life()) && !workers_[w].gone) send_home(at, w);
  if (!s.in_policy[w]) return;
  s.in_policy[w] = false;
  s.rule->leave(t.worker);
  begin_round(s);
  apply_complete(s);
}

void rehearsal::change_policy(shard& s) {
  const recorded_switch& to = r_.end.switches[s.switches++];
  while (s.pending + s.deferred > 0) {
    if (s.pending == 0) turn_over(s);
    apply_batch(s);
  }
  s.rounds = 0;
  s.rule = make_policy(to.policy, r_.header.ranks());
  for (std::uint32_t w = 0; w < workers_.size(); ++w) {
    s.in_policy[w] = to.present[w] != 0;
    s.waits[w] = s.in_policy[w] && s.joined_as[w] && is_now(w, *s.joined_as[w]);
    if (s.in_policy[w]) s.rule->join({w});
  }
}

void rehearsal::close_batch(shard& s) {
  s.rule->close();
  apply_complete(s);
}

void rehearsal::apply_complete(shard& s) {
  const bool several = s.rule->takes_first() > 0 || s.rule->has_rounds();
  while (s.rule->batch_complete() && !(several && s.pending + s.deferred == 0)) {
    apply_batch(s);
    if (!several) return;
  }
}

void rehearsal::apply_batch(shard& s) {
  const std::uint64_t first = s.rule->takes_first();
  const std::uint64_t taken = first == 0 ? s.pending : std::min(s.pending, first);
  if (listener_) listener_->merged(static_cast<std::size_t>(&s - shards_.data()), taken);
  s.pending -= taken;
  ++s.version;
  s.rule->batch_applied();
  begin_round(s);
}

void rehearsal::begin_round(shard& s) {
  while (s.rounds < s.rule->rounds_over()) turn_over(s);
}

void rehearsal::turn_over(shard& s) {
  ++s.rounds;
  s.pending = std::exchange(s.deferred, 0);
  if (listener_) listener_->round_over(static_cast<std::size_t>(&s - shards_.data()));
}

/// Sends weights to the workers that may start. Answers from before a switch of policy are dropped, because
/// workers ignore them.
void rehearsal::release(std::size_t at) {
  shard& s = shards_[at];
  for (std::uint32_t w = 0; w < workers_.size(); ++w) {
    if (!s.waits[w] || !s.rule->may_start({w})) continue;
    s.waits[w] = false;
    if (!s.rule->has_rounds() || s.rule->renews({w})) s.version_read[w] = s.version;
    if (s.switches != passed_) continue;
    if (workers_[w].answered[at]) refuse_second_answer(at, w);
    answer(at, w);
  }
}

} // namespace mailgrad
