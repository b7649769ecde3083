#include <mailgrad/engine/record/rehearsal.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad {

namespace {

using kind = order_entry::kind;

} // namespace

rehearsal::rehearsal(const recording& r, const replay_terms& terms, rehearsal_listener* listener)
    : r_(r), terms_(terms), listener_(listener), lives_(r), workers_(r.header.ranks()) {
  const std::size_t n = workers_.size();
  for (const auto& turns : r.turns) {
    shard s{};
    s.rule = make_policy(terms.policy, r.header.ranks());
    s.has.resize(n);
    s.joined_as.resize(n);
    for (auto* flags : {&s.joined, &s.left, &s.in_policy, &s.waits}) flags->resize(n);
    for (auto* steps : {&s.arrived, &s.taken}) steps->resize(n);
    s.version_read.resize(n);
    for (std::uint32_t w = 0; w < r.header.workers; ++w) {
      s.in_policy[w] = true;
      s.rule->join({w});
    }
    for (const order_entry& t : turns) {
      s.has[t.worker.value].add(t);
      if (t.what == kind::left) workers_[t.worker.value].ends = true;
    }
    shards_.push_back(std::move(s));
  }
  for (std::size_t w = 0; w < n; ++w) {
    if (w < r.header.workers) begin_life(w);
    for (const std::uint64_t batch : r.batches[w])
      if (batch >= terms.batches) refuse_batch(w, batch);
  }
}

void rehearsal::run() {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < shards_.size(); ++s)
      while (take_turn(s)) moved = true;
    for (std::size_t w = 0; w < workers_.size(); ++w)
      while (advance_worker(w) || seat(w)) moved = true;
    moved = pass_switch() || moved;
  }
}

bool rehearsal::has_ended() const {
  for (std::size_t s = 0; s < shards_.size(); ++s)
    if (shards_[s].next < r_.turns[s].size()) return false;
  for (std::size_t w = 0; w < workers_.size(); ++w)
    if (!workers_[w].gone || workers_[w].begun < lives_.of(w).size()) return false;
  return true;
}

// -- incarnations, which coordinator lets in one after the other -------------------------------------------

/// Whether the next incarnation of a worker comes before the next switch.
bool rehearsal::is_due(std::size_t w) const {
  const auto lives = lives_.of(w);
  const std::size_t next = workers_[w].begun;
  return next < lives.size() && lives[next].switches <= passed_;
}

bool rehearsal::seat(std::size_t w) {
  if (!workers_[w].gone || !is_due(w)) return false;
  begin_life(w);
  return true;
}

void rehearsal::begin_life(std::size_t w) {
  worker& me = workers_[w];
  ++me.begun;
  const recorded_life& now = life_of(w);
  me.batches = now.first;
  me.step = me.local = me.last_recorded = 0;
  me.holds_step = me.gone = false;
  await_answers(w);
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    me.last_recorded = std::max(me.last_recorded, shards_[s].has[w].last_step(now.life).value);
    if (now.cut && !shards_[s].has[w].joins(now.life)) answer(s, w);
  }
}

void rehearsal::answer(std::size_t s, std::size_t w) {
  workers_[w].answered[s] = true;
  --workers_[w].missing;
  if (listener_) listener_->answered(s, {static_cast<std::uint32_t>(w)});
}

// -- workers, which behave as device_actor ----------------------------------------------------------------

bool rehearsal::advance_worker(std::size_t w) {
  worker& me = workers_[w];
  if (me.gone || me.missing > 0) return false;
  if (at_switch(w)) return flush(w);
  if (lacks_deals(w)) return false;
  if (std::exchange(me.holds_step, false)) ++me.local;
  if (me.batches < life_of(w).end)
    train_batch(w);
  else if (std::exchange(me.local, 0) > 0)
    push(w);
  else
    me.gone = true;
  return true;
}

/// Whether the recording may lack batches of this worker. A killed run may have dealt more batches than it
/// wrote, unless the worker is known to have ended.
bool rehearsal::lacks_deals(std::size_t w) const {
  const worker& me = workers_[w];
  if (!r_.killed || me.batches < life_of(w).end) return false;
  return !me.ends || terms_.local_steps > 0 || me.step < me.last_recorded;
}

void rehearsal::train_batch(std::size_t w) {
  worker& me = workers_[w];
  ++me.batches;
  if (terms_.local_steps == 0) return push(w);
  if (terms_.elastic && me.local >= terms_.local_steps) {
    me.holds_step = true;
    me.local = 0;
    return push(w);
  }
  if (++me.local < terms_.local_steps || terms_.elastic) return;
  me.local = 0;
  push(w);
}

void rehearsal::push(std::size_t w) {
  worker& me = workers_[w];
  if (r_.end.ended == "diverged" && me.step == me.last_recorded && !life_of(w).cut) {
    me.gone = true;
    return;
  }
  ++me.step;
  await_answers(w);
  for (std::size_t s = 0; s < shards_.size(); ++s)
    if (life_of(w).cut && me.step > shards_[s].has[w].last_step(life_of(w).life).value)
      answer(s, w);
    else if (std::exchange(shards_[s].arrived[w], me.step) != 0)
      refuse_early_step(s, w);
}

void rehearsal::await_answers(std::size_t w) {
  workers_[w].answered.assign(shards_.size(), false);
  workers_[w].missing = shards_.size();
}

/// An incarnation after which another comes before the switch takes no part in it.
bool rehearsal::at_switch(std::size_t w) const {
  if (passed_ == r_.end.switches.size() || is_due(w)) return false;
  const recorded_switch& next = r_.end.switches[passed_];
  return next.present[w] != 0 && workers_[w].batches >= lives_.batches_before(next, passed_, w);
}

/// Whether it held a step at the next switch no more, since some shard had the push that follows that step.
bool rehearsal::takes_held(std::size_t w) const {
  return workers_[w].holds_step && workers_[w].step < lives_.step_before(passed_, w).value;
}

/// Pushes what a worker keeps when it comes to a switch.
bool rehearsal::flush(std::size_t w) {
  worker& me = workers_[w];
  if (!takes_held(w) && me.local == 0) return false;
  if (me.local == 0) me.holds_step = false;
  me.local = 0;
  push(w);
  return true;
}

/// A switch passes once every worker that takes part has come to it, and every other has ended.
bool rehearsal::pass_switch() {
  if (passed_ == r_.end.switches.size()) return false;
  const recorded_switch& next = r_.end.switches[passed_];
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const worker& me = workers_[w];
    const bool comes = !me.gone && at_switch(w) && me.local == 0 && !takes_held(w);
    if (next.present[w] != 0 ? !comes : !me.gone || is_due(w)) return false;
  }
  for (std::size_t w = 0; w < workers_.size(); ++w)
    if (next.present[w] != 0) await_answers(w);
  ++passed_;
  return true;
}

std::vector<order_entry> rehearsal::last_gradients() const {
  std::vector<const worker*> with_one;
  for (const worker& w : workers_)
    if (w.taken_as > 0) with_one.push_back(&w);
  std::ranges::sort(with_one, {}, &worker::taken_as);
  std::vector<order_entry> turns;
  for (const worker* w : with_one) turns.push_back(w->first_taken);
  return turns;
}

void require_replay_ends(const recording& r, const replay_terms& terms) {
  rehearsal all(r, terms);
  all.run();
  if (!all.has_ended())
    throw recording_error("recording '" + r.name + "' cannot be repeated to its end: " + all.obstacle());
}

} // namespace mailgrad
