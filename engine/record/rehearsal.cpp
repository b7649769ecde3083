#include <mailgrad/engine/record/rehearsal.hpp>

#include <algorithm>
#include <utility>

// The shards of a rehearsal behave as shard_core. Below them: what a rehearsal waits for, and why it refuses
// a recording.

namespace mailgrad {

namespace {

using kind = order_entry::kind;

} // namespace

rehearsal::shard::shard(std::size_t s, const replay_terms& terms, const recording& r,
                        rehearsal_listener* listener)
    : index(s), hears(listener), turns(*this, make_policy(terms.policy, r.header.ranks())),
      has(r.header.ranks()), joined_as(has.size()), joined(has.size()), left(has.size()),
      in_policy(has.size()), waits(has.size()), arrived(has.size()), taken(has.size()),
      version_read(has.size()) {
  for (std::uint32_t w = 0; w < r.header.workers; ++w) {
    in_policy[w] = true;
    turns.rule().join({w});
  }
  for (const order_entry& t : r.turns[s]) has[t.worker.value].add(t);
}

rehearsal::rehearsal(const recording& r, const replay_terms& terms, rehearsal_listener* listener)
    : r_(r), terms_(terms), listener_(listener), lives_(r), workers_(r.header.ranks()) {
  const std::size_t n = workers_.size();
  for (std::size_t s = 0; s < r.turns.size(); ++s) {
    shards_.emplace_back(s, terms, r, listener);
    for (const order_entry& t : r.turns[s])
      if (t.what == kind::left) workers_[t.worker.value].ends = true;
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
    s.turns.close();
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
  s.turns.rule().join(t.worker);
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
  if (what == verdict::apply) ++s.made;
  if (what == verdict::merge || what == verdict::defer) s.add(s.turns.place(what));
  if (what == verdict::merge) s.turns.update_if_due();
}

verdict rehearsal::judge(std::size_t at, const order_entry& t) {
  shard& s = shards_[at];
  const std::size_t w = t.worker.value;
  const verdict what = s.turns.judge(t, s.version_read[w]).what;
  if (listener_) listener_->judged(at, t, what, s.made - s.version_read[w], workers_[w].batches_in_taken);
  return what;
}

/// The shard judges without the gradient, and the worker need not wait.
void rehearsal::take_missed(std::size_t at, const order_entry& t) {
  shard& s = shards_[at];
  const std::uint32_t w = t.worker.value;
  s.arrived[w] = 0;
  s.taken[w] = t.step.value;
  s.turns.take_lost(judge(at, t));
  send_home(at, w);
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
  s.turns.leave(t.worker);
}

void rehearsal::change_policy(shard& s) {
  const recorded_switch& to = r_.end.switches[s.switches++];
  s.turns.finish();
  s.turns.begin(make_policy(to.policy, r_.header.ranks()));
  for (std::uint32_t w = 0; w < workers_.size(); ++w) {
    s.in_policy[w] = to.present[w] != 0;
    s.waits[w] = s.in_policy[w] && s.joined_as[w] && is_now(w, *s.joined_as[w]);
    if (s.in_policy[w]) s.turns.rule().join({w});
  }
}

bool rehearsal::shard::update(waits_in where, std::size_t first) {
  const std::uint64_t merged = where == waits_in::queue ? std::min<std::uint64_t>(pending, first) : pending;
  if (hears) hears->merged(index, merged);
  pending -= merged;
  ++made;
  return true;
}

void rehearsal::shard::turn_over() {
  ++rounds;
  pending = std::exchange(deferred, 0);
  if (hears) hears->round_over(index);
}

/// Sends weights to the workers that may start. Answers from before a switch of policy are dropped, because
/// workers ignore them.
void rehearsal::release(std::size_t at) {
  shard& s = shards_[at];
  for (std::uint32_t w = 0; w < workers_.size(); ++w) {
    if (!s.waits[w] || !s.turns.may_start({w})) continue;
    s.waits[w] = false;
    if (s.turns.renews({w})) s.version_read[w] = s.made;
    if (s.switches != passed_) continue;
    if (workers_[w].answered[at]) refuse_second_answer(at, w);
    answer(at, w);
  }
}

namespace {

using kind = order_entry::kind;

std::string number(std::uint64_t n) { return std::to_string(n); }
std::string name_of_worker(std::size_t w) { return "worker " + number(w); }
std::string name_of_shard(std::size_t s) { return "shard " + number(s); }

} // namespace

void rehearsal::refuse(const std::string& why) const {
  throw recording_error("recording '" + r_.name + "' " + why);
}

void rehearsal::refuse_batch(std::size_t w, std::uint64_t batch) const {
  refuse("deals batch " + number(batch) + " to " + name_of_worker(w) + "; the run has " +
         number(terms_.batches));
}

void rehearsal::refuse_early_step(std::size_t s, std::size_t w) const {
  const std::uint64_t step = workers_[w].step;
  refuse("cannot be: " + name_of_worker(w) + " comes to step " + number(step) + " before " +
         name_of_shard(s) + " takes its step " + number(step - 1));
}

void rehearsal::refuse_second_answer(std::size_t s, std::size_t w) const {
  refuse("cannot be: " + name_of_shard(s) + " lets " + name_of_worker(w) + " go twice, at turn " +
         number(shards_[s].next));
}

std::string rehearsal::obstacle() const {
  for (std::size_t s = 0; s < shards_.size(); ++s)
    if (shards_[s].next < r_.turns[s].size()) return wait_of_shard(s);
  for (std::size_t w = 0; w < workers_.size(); ++w)
    if (!workers_[w].gone || workers_[w].begun < lives_.of(w).size()) return wait_of_worker(w);
  return "nothing";
}

std::string rehearsal::wait_of_shard(std::size_t s) const {
  const order_entry& t = r_.turns[s][shards_[s].next];
  const std::size_t w = t.worker.value;
  const std::string me = name_of_shard(s) + " waits at its turn " + number(shards_[s].next + 1) + " of " +
                         number(r_.turns[s].size()) + " for ";
  if (t.what == kind::joined)
    return me + name_of_worker(w) + " as incarnation " + number(t.step.value) + ": " + wait_of_worker(w);
  if (t.what == kind::gradient || t.what == kind::missed)
    return me + "the gradient of " + name_of_worker(w) + ", step " + number(t.step.value) + ": " +
           wait_of_worker(w);
  if (t.what == kind::left) return me + "the end of " + name_of_worker(w) + ": " + wait_of_worker(w);
  const recorded_switch& next = r_.end.switches[shards_[s].switches];
  std::string missing;
  for (std::size_t other = 0; other < workers_.size() && missing.empty(); ++other)
    if (next.present[other] != 0 ? workers_[other].gone || !at_switch(other) : !workers_[other].gone)
      missing = wait_of_worker(other);
  return me + "the switch to " + next.policy + ": " + missing;
}

std::string rehearsal::wait_of_worker(std::size_t w) const {
  const worker& me = workers_[w];
  const std::string name = name_of_worker(w);
  const std::string after = me.step == 0 ? " before its first step" : " after its step " + number(me.step);
  if (me.gone && me.begun < lives_.of(w).size())
    return name + " waits for its seat as incarnation " + number(lives_.of(w)[me.begun].life.value);
  if (me.gone) return name + " has ended" + after;
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    if (me.answered[s] || me.missing == 0) continue;
    std::string why;
    if (!shards_[s].joined_as[w] || !is_now(w, *shards_[s].joined_as[w]))
      why = "which it has not joined";
    else if (shards_[s].next == r_.turns[s].size())
      why = shards_[s].arrived[w] != 0 ? "which has no turn for it" : "which has no turn left";
    else
      why = "which is at its turn " + number(shards_[s].next + 1);
    return name + " waits for the weights of " + name_of_shard(s) + after + ", " + why;
  }
  if (at_switch(w)) return name + " waits for the switch to " + r_.end.switches[passed_].policy + after;
  return name + " waits for a batch" + after;
}

namespace {

using kind = order_entry::kind;

/// Completes the turns of each shard with the joins, gradients and switches that any other shard has taken.
void complete_what_began(recording& cut, const rehearsal& so_far) {
  const std::size_t workers = cut.header.workers;
  for (std::size_t s = 0; s < cut.turns.size(); ++s) {
    std::vector<order_entry>& turns = cut.turns[s];
    turns.resize(so_far.turns_taken(s));
    for (std::uint32_t w = 0; w < workers; ++w)
      if (!so_far.joined(s, w)) turns.push_back({kind::joined, {w}});
    for (const order_entry& t : so_far.last_gradients())
      if (so_far.step_taken(s, t.worker.value) < t.step.value) turns.push_back(t);
    for (std::uint64_t made = so_far.switches_made(s); made < cut.end.switches.size(); ++made)
      turns.push_back({kind::switched, {}});
  }
}

/// Lets each worker leave as soon as it can, which may let other workers go on.
void let_all_leave(recording& cut, const replay_terms& terms) {
  rehearsal again(cut, terms);
  for (bool left = true; left;) {
    again.run();
    left = false;
    for (std::size_t s = 0; s < cut.turns.size(); ++s)
      for (std::uint32_t w = 0; w < cut.header.workers; ++w) {
        const std::uint64_t arrived = again.step_arrived(s, w);
        if (again.turns_taken(s) < cut.turns[s].size() || again.left(s, w)) continue;
        if (arrived == 0 && !again.gone(w)) continue;
        if (arrived == 0)
          cut.turns[s].push_back({kind::left, {w}});
        else // a gradient of its remaining local steps, or of a step that it held
          cut.turns[s].push_back({kind::gradient, {w}, arrived});
        again.run();
        left = true;
      }
  }
}

} // namespace

recording repeatable_part(const recording& r, const replay_terms& terms) {
  require_repeatable(r);
  rehearsal so_far(r, terms);
  so_far.run();
  recording cut = r;
  std::uint64_t switches = 0;
  for (std::size_t s = 0; s < r.turns.size(); ++s) switches = std::max(switches, so_far.switches_made(s));
  cut.end.switches.resize(switches);
  cut.end.ended = "stopped";
  cut.killed = false;
  for (std::size_t w = 0; w < cut.batches.size(); ++w) cut.batches[w].resize(so_far.batches_in_taken(w));
  complete_what_began(cut, so_far);
  let_all_leave(cut, terms);
  require_repeatable(cut);
  require_replay_ends(cut, terms);
  cut.killed = true;
  return cut;
}

} // namespace mailgrad
