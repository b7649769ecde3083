#include <mailgrad/engine/record/rehearsal.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

using kind = order_entry::kind;

/// Hears what the shards of a rehearsal do, each in its order.
class rehearsal_listener {
public:
  virtual ~rehearsal_listener() = default;
  /// A shard has judged a gradient of this gap, of a worker which had trained `batches` by then.
  virtual void judged(std::size_t shard, const order_entry& entry, verdict what, std::uint64_t gap,
                      std::uint64_t batches) = 0;
  /// A shard makes an update of so many of the gradients that it has judged to be merged, the first ones.
  virtual void merged([[maybe_unused]] std::size_t shard, [[maybe_unused]] std::uint64_t gradients) {}
  /// At a shard a round is over: what was deferred is to be merged next.
  virtual void round_over([[maybe_unused]] std::size_t shard) {}
  virtual void answered(std::size_t shard, rank worker) = 0;
};

/// Simulates a replay without data, gradients and threads, so that it is known to come to its end.
///
/// It takes a step of a worker or an entry of a shard as soon as one is possible; their order does not change
/// the result. If the recorded run diverged, a worker diverges after its last recorded gradient. A shard that
/// lacks entries of a worker that was lost answers it at once.
class rehearsal {
public:
  /// `r` must pass require_repeatable() and outlive this object, as must `listener`, which may be null.
  /// Errors  recording_error: a batch that the data do not have; std::invalid_argument: an unknown policy.
  rehearsal(const recording& r, const replay_terms& terms, rehearsal_listener* listener = nullptr)
      : r_(r), terms_(terms), listener_(listener), incarnations_(r), workers_(r.header.ranks()) {
    const std::size_t n = workers_.size();
    for (std::size_t s = 0; s < r.entries.size(); ++s) {
      shards_.emplace_back(s, terms, r, listener);
      for (const order_entry& t : r.entries[s])
        if (t.what == kind::left) workers_[t.worker.value].ends = true;
    }
    for (std::size_t w = 0; w < n; ++w) {
      if (w < r.header.workers) begin_incarnation(w);
      for (const std::uint64_t batch : r.batches[w])
        if (batch >= terms.batches)
          refuse(fmt::format("deals batch {} to worker {}; the run has {}", batch, w, terms.batches));
    }
  }

  /// Goes as far as possible. A later call goes further if entries have been added to the recording.
  /// Errors  recording_error: a worker pushes before its last gradient was taken, or gets weights twice.
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < shards_.size(); ++s)
        while (take_entry(s)) moved = true;
      for (std::size_t w = 0; w < workers_.size(); ++w)
        while (advance_worker(w) || give_slot(w)) moved = true;
      moved = pass_switch() || moved;
    }
  }
  bool has_ended() const {
    for (std::size_t s = 0; s < shards_.size(); ++s)
      if (shards_[s].next < r_.entries[s].size()) return false;
    for (std::size_t w = 0; w < workers_.size(); ++w)
      if (!workers_[w].gone || workers_[w].begun < incarnations_.of(w).size()) return false;
    return true;
  }
  /// What the replay waits for, in words; call it only if has_ended() is false.
  std::string obstacle() const {
    for (std::size_t s = 0; s < shards_.size(); ++s)
      if (shards_[s].next < r_.entries[s].size()) return wait_of_shard(s);
    for (std::size_t w = 0; w < workers_.size(); ++w)
      if (!workers_[w].gone || workers_[w].begun < incarnations_.of(w).size()) return wait_of_worker(w);
    return "nothing";
  }

  version_number version(std::size_t s) const { return shards_[s].made; }

  // The state so far, from which repeatable_part() completes the recording of a killed run.
  std::size_t entries_taken(std::size_t s) const { return shards_[s].next; }
  std::uint64_t switches_made(std::size_t s) const { return shards_[s].switches; }
  bool joined(std::size_t s, std::size_t w) const { return shards_[s].joined[w]; }
  bool left(std::size_t s, std::size_t w) const { return shards_[s].left[w]; }
  bool gone(std::size_t w) const { return workers_[w].gone; }
  std::uint64_t step_taken(std::size_t s, std::size_t w) const { return shards_[s].taken[w]; }
  /// The step of the gradient that has arrived and is not yet taken; 0 if there is none.
  std::uint64_t step_arrived(std::size_t s, std::size_t w) const { return shards_[s].arrived[w]; }
  /// For each worker the last gradient that any shard has taken, in the order in which they were first taken.
  std::vector<order_entry> last_gradients() const {
    std::vector<const worker*> with_one;
    for (const worker& w : workers_)
      if (w.taken_as > 0) with_one.push_back(&w);
    std::ranges::sort(with_one, {}, &worker::taken_as);
    std::vector<order_entry> entries;
    for (const worker* w : with_one) entries.push_back(w->first_taken);
    return entries;
  }
  /// The batches that a worker had trained when it pushed the last gradient that any shard has taken.
  std::uint64_t batches_in_taken(std::size_t w) const { return workers_[w].batches_in_taken; }

private:
  /// A shard without weights: it counts its versions, and the gradients that wait.
  struct shard final : policy_machine::side {
    shard(std::size_t s, const replay_terms& terms, const recording& r, rehearsal_listener* listener)
        : index(s), hears(listener), machine(*this, make_policy(terms.policy, r.header.ranks())),
          has(r.header.ranks()), joined_as(has.size()), joined(has.size()), left(has.size()),
          in_policy(has.size()), waits(has.size()), arrived(has.size()), taken(has.size()),
          version_read(has.size()) {
      for (std::uint32_t w = 0; w < r.header.workers; ++w) {
        in_policy[w] = true;
        machine.rule().join({w});
      }
      for (const order_entry& t : r.entries[s]) has[t.worker.value].add(t);
    }

    version_number version() const override { return made; }
    bool nothing_waits() const override { return pending + deferred == 0; }
    bool update(waits_in where, std::size_t first) override {
      const std::uint64_t merged =
          where == waits_in::queue ? std::min<std::uint64_t>(pending, first) : pending;
      if (hears) hears->merged(index, merged);
      pending -= merged;
      ++made;
      return true;
    }
    void update_of_nothing() override { ++made; }
    void add_lost(waits_in where) override {
      if (where != waits_in::batch) add(where);
    }
    void begin_round(std::uint64_t rounds_over) override {
      while (rounds < rounds_over) turn_over();
    }
    void skip_to_waiting() override {
      if (pending == 0) turn_over();
    }
    void clear_rounds() override { rounds = 0; }
    void add(waits_in where) { ++(where == waits_in::next_round ? deferred : pending); }
    void turn_over() {
      ++rounds;
      pending = std::exchange(deferred, 0);
      if (hears) hears->round_over(index);
    }

    std::size_t index;
    rehearsal_listener* hears;
    policy_machine machine;
    version_number made;
    std::uint64_t pending = 0;  ///< gradients that wait, or places of a queue
    std::uint64_t deferred = 0; ///< those that wait for the next round
    std::uint64_t rounds = 0;   ///< that are over
    std::uint64_t switches = 0;
    std::size_t next = 0; ///< index of the next entry
    // By rank:
    std::vector<entries_of_worker> has;                       ///< in the order
    std::vector<std::optional<incarnation_number>> joined_as; ///< the last entry in which it joined
    std::vector<bool> joined, left, in_policy, waits;
    std::vector<std::uint64_t> arrived; ///< the step of the gradient that has arrived; 0: none
    std::vector<std::uint64_t> taken;   ///< the last step taken
    std::vector<version_number> version_read;
  };
  struct worker {
    std::size_t begun = 0;              ///< incarnations that have begun; the last of them is this one
    std::uint64_t step = 0;             ///< of its last gradient
    std::uint64_t last_recorded = 0;    ///< the last step for which any shard has an entry
    bool ends = false;                  ///< any shard has an entry in which it leaves
    std::uint64_t batches = 0;          ///< trained or in training
    std::uint64_t batches_in_taken = 0; ///< trained by its last gradient that any shard has taken
    std::uint64_t local = 0;            ///< steps of its own since the last exchange
    bool holds_step = false;            ///< elastic: a local step waits for the answers
    bool gone = true;                   ///< it has ended, or has not begun
    std::vector<bool> answered;         ///< by shard
    std::size_t missing = 0;            ///< answers still missing
    order_entry first_taken;            ///< the first entry of its last gradient that any shard has taken
    std::uint64_t taken_as = 0;         ///< the number of that entry among all such entries, from 1; 0: none
  };

  /// The present incarnation of a worker, or the last one that has ended.
  const recorded_incarnation& incarnation_of(std::size_t w) const {
    return incarnations_.of(w)[workers_[w].begun - 1];
  }
  bool is_now(std::size_t w, incarnation_number incarnation) const {
    return workers_[w].begun > 0 && incarnation_of(w).incarnation == incarnation;
  }

  // -- incarnations, which coordinator lets in one after the other -----------------------------------------

  /// Whether the next incarnation of a worker comes before the next switch.
  bool is_due(std::size_t w) const {
    const auto incarnations = incarnations_.of(w);
    const std::size_t next = workers_[w].begun;
    return next < incarnations.size() && incarnations[next].switches <= passed_;
  }
  bool give_slot(std::size_t w) {
    if (!workers_[w].gone || !is_due(w)) return false;
    begin_incarnation(w);
    return true;
  }
  void begin_incarnation(std::size_t w) {
    worker& me = workers_[w];
    ++me.begun;
    const recorded_incarnation& now = incarnation_of(w);
    me.batches = now.first;
    me.step = me.local = me.last_recorded = 0;
    me.holds_step = me.gone = false;
    await_answers(w);
    for (std::size_t s = 0; s < shards_.size(); ++s) {
      me.last_recorded = std::max(me.last_recorded, shards_[s].has[w].last_step(now.incarnation).value);
      if (now.cut && !shards_[s].has[w].joins(now.incarnation)) answer(s, w);
    }
  }
  void answer(std::size_t s, std::size_t w) {
    workers_[w].answered[s] = true;
    --workers_[w].missing;
    if (listener_) listener_->answered(s, {static_cast<std::uint32_t>(w)});
  }

  // -- workers, which behave as device_actor ---------------------------------------------------------------

  bool advance_worker(std::size_t w) {
    worker& me = workers_[w];
    if (me.gone || me.missing > 0) return false;
    if (at_switch(w)) return flush(w);
    if (lacks_deals(w)) return false;
    if (std::exchange(me.holds_step, false)) ++me.local;
    if (me.batches < incarnation_of(w).end)
      train_batch(w);
    else if (std::exchange(me.local, 0) > 0)
      push(w);
    else
      me.gone = true;
    return true;
  }
  /// Whether a killed run may have dealt this worker more batches than it wrote. It has not if the worker is
  /// known to have ended.
  bool lacks_deals(std::size_t w) const {
    const worker& me = workers_[w];
    if (!r_.killed || me.batches < incarnation_of(w).end) return false;
    return !me.ends || terms_.local_steps > 0 || me.step < me.last_recorded;
  }
  void train_batch(std::size_t w) {
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
  void push(std::size_t w) {
    worker& me = workers_[w];
    if (r_.end.ended == "diverged" && me.step == me.last_recorded && !incarnation_of(w).cut) {
      me.gone = true;
      return;
    }
    ++me.step;
    await_answers(w);
    for (std::size_t s = 0; s < shards_.size(); ++s)
      if (incarnation_of(w).cut && me.step > shards_[s].has[w].last_step(incarnation_of(w).incarnation).value)
        answer(s, w);
      else if (std::exchange(shards_[s].arrived[w], me.step) != 0)
        refuse(fmt::format("cannot be: worker {} comes to step {} before shard {} takes its step {}", w,
                           me.step, s, me.step - 1));
  }
  void await_answers(std::size_t w) {
    workers_[w].answered.assign(shards_.size(), false);
    workers_[w].missing = shards_.size();
  }
  /// An incarnation after which another comes before the switch takes no part in it.
  bool at_switch(std::size_t w) const {
    if (passed_ == r_.end.switches.size() || is_due(w)) return false;
    const recorded_switch& next = r_.end.switches[passed_];
    return next.present[w] != 0 && workers_[w].batches >= incarnations_.batches_before(next, passed_, w);
  }
  /// Whether it held a step at the next switch no more, since some shard had the push that follows that step.
  bool takes_held(std::size_t w) const {
    return workers_[w].holds_step && workers_[w].step < incarnations_.step_before(passed_, w).value;
  }
  bool flush(std::size_t w) {
    worker& me = workers_[w];
    if (!takes_held(w) && me.local == 0) return false;
    if (me.local == 0) me.holds_step = false;
    me.local = 0;
    push(w);
    return true;
  }
  /// A switch passes once every worker that takes part has come to it, and every other has ended.
  bool pass_switch() {
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

  // -- shards, which behave as shard_core ------------------------------------------------------------------

  bool take_entry(std::size_t at) {
    shard& s = shards_[at];
    if (s.next == r_.entries[at].size() || !is_ready(s, r_.entries[at][s.next])) return false;
    const order_entry& t = r_.entries[at][s.next++];
    if (t.what == kind::joined)
      greet(s, t);
    else if (t.what == kind::gradient || t.what == kind::missed)
      take_gradient(at, t);
    else if (t.what == kind::left)
      let_go(at, t);
    else if (t.what == kind::closed)
      s.machine.close();
    else
      change_policy(s);
    release(at);
    return true;
  }
  bool is_ready(const shard& s, const order_entry& t) const {
    const std::uint32_t w = t.worker.value;
    switch (t.what) {
    case kind::joined:
      return workers_[w].begun > 0 && incarnation_of(w).incarnation >= t.incarnation();
    case kind::gradient:
    case kind::missed:
      return s.joined_as[w] && is_now(w, *s.joined_as[w]) && s.arrived[w] == t.step.value;
    case kind::left:
      if (const recorded_incarnation* one = incarnations_.find(t.worker, t.incarnation()); one && one->cut)
        return true;
      return workers_[w].gone;
    case kind::closed:
      return true;
    case kind::switched:
    case kind::kept: // stands in no recording
      return s.switches < passed_;
    }
    return false;
  }
  void greet(shard& s, const order_entry& t) {
    const std::uint32_t w = t.worker.value;
    s.joined_as[w] = t.incarnation();
    s.joined[w] = true;
    s.left[w] = false;
    s.waits[w] = is_now(w, t.incarnation()) && !workers_[w].gone;
    if (s.in_policy[w]) return;
    s.in_policy[w] = true;
    s.machine.rule().join(t.worker);
  }
  void take_gradient(std::size_t at, const order_entry& t) {
    shard& s = shards_[at];
    const std::uint32_t w = t.worker.value;
    worker& of = workers_[w];
    s.arrived[w] = 0;
    s.taken[w] = t.step.value;
    if (t.what == kind::missed) { // the shard judges without it, and the worker need not wait
      s.machine.take_lost(judge(at, t));
      return send_home(at, w);
    }
    if (of.taken_as == 0 || of.first_taken.step < t.step) {
      of.first_taken = t;
      of.taken_as = ++gradients_;
      of.batches_in_taken = of.batches; // exact, because the worker waits for this gradient
    }
    s.waits[w] = true;
    const verdict what = judge(at, t);
    if (what == verdict::apply) ++s.made;
    if (what == verdict::merge || what == verdict::defer) s.add(s.machine.place(what));
    if (what == verdict::merge) s.machine.update_if_due();
  }
  verdict judge(std::size_t at, const order_entry& t) {
    shard& s = shards_[at];
    const std::size_t w = t.worker.value;
    const verdict what = s.machine.judge(t, s.version_read[w]).what;
    if (listener_) listener_->judged(at, t, what, s.made - s.version_read[w], workers_[w].batches_in_taken);
    return what;
  }
  /// A worker that was lost gets weights that it does not use. Before a switch of policy it ignores them.
  void send_home(std::size_t at, std::uint32_t w) {
    if (shards_[at].switches == passed_ && !workers_[w].answered[at]) answer(at, w);
  }
  void let_go(std::size_t at, const order_entry& t) {
    shard& s = shards_[at];
    const std::uint32_t w = t.worker.value;
    s.left[w] = true;
    s.waits[w] = false;
    if (is_now(w, t.incarnation()) && !workers_[w].gone) send_home(at, w);
    if (!s.in_policy[w]) return;
    s.in_policy[w] = false;
    s.machine.leave(t.worker);
  }
  void change_policy(shard& s) {
    const recorded_switch& to = r_.end.switches[s.switches++];
    s.machine.finish();
    s.machine.begin(make_policy(to.policy, r_.header.ranks()));
    for (std::uint32_t w = 0; w < workers_.size(); ++w) {
      s.in_policy[w] = to.present[w] != 0;
      s.waits[w] = s.in_policy[w] && s.joined_as[w] && is_now(w, *s.joined_as[w]);
      if (s.in_policy[w]) s.machine.rule().join({w});
    }
  }
  /// Sends weights to the workers that may start, which ignore answers from before a switch of policy.
  void release(std::size_t at) {
    shard& s = shards_[at];
    for (std::uint32_t w = 0; w < workers_.size(); ++w) {
      if (!s.waits[w] || !s.machine.may_start({w})) continue;
      s.waits[w] = false;
      if (s.machine.renews({w})) s.version_read[w] = s.made;
      if (s.switches != passed_) continue;
      if (workers_[w].answered[at])
        refuse(fmt::format("cannot be: shard {} lets worker {} go twice, at turn {}", at, w, s.next));
      answer(at, w);
    }
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw recording_error(fmt::format("recording '{}' {}", r_.name, why));
  }
  std::string wait_of_shard(std::size_t s) const {
    const order_entry& t = r_.entries[s][shards_[s].next];
    const std::size_t w = t.worker.value;
    const std::string me =
        fmt::format("shard {} waits at its turn {} of {} for ", s, shards_[s].next + 1, r_.entries[s].size());
    if (t.what == kind::joined)
      return fmt::format("{}worker {} as incarnation {}: {}", me, w, t.step.value, wait_of_worker(w));
    if (t.what == kind::gradient || t.what == kind::missed)
      return fmt::format("{}the gradient of worker {}, step {}: {}", me, w, t.step.value, wait_of_worker(w));
    if (t.what == kind::left) return fmt::format("{}the end of worker {}: {}", me, w, wait_of_worker(w));
    const recorded_switch& next = r_.end.switches[shards_[s].switches];
    std::string missing;
    for (std::size_t other = 0; other < workers_.size() && missing.empty(); ++other)
      if (next.present[other] != 0 ? workers_[other].gone || !at_switch(other) : !workers_[other].gone)
        missing = wait_of_worker(other);
    return me + "the switch to " + next.policy + ": " + missing;
  }
  std::string wait_of_worker(std::size_t w) const {
    const worker& me = workers_[w];
    const std::string name = fmt::format("worker {}", w);
    const std::string after =
        me.step == 0 ? " before its first step" : fmt::format(" after its step {}", me.step);
    if (me.gone && me.begun < incarnations_.of(w).size())
      return fmt::format("{} waits for its slot as incarnation {}", name,
                         incarnations_.of(w)[me.begun].incarnation.value);
    if (me.gone) return name + " has ended" + after;
    for (std::size_t s = 0; s < shards_.size(); ++s) {
      if (me.answered[s] || me.missing == 0) continue;
      std::string why;
      if (!shards_[s].joined_as[w] || !is_now(w, *shards_[s].joined_as[w]))
        why = "which it has not joined";
      else if (shards_[s].next == r_.entries[s].size())
        why = shards_[s].arrived[w] != 0 ? "which has no turn for it" : "which has no turn left";
      else
        why = fmt::format("which is at its turn {}", shards_[s].next + 1);
      return fmt::format("{} waits for the weights of shard {}{}, {}", name, s, after, why);
    }
    if (at_switch(w)) return name + " waits for the switch to " + r_.end.switches[passed_].policy + after;
    return name + " waits for a batch" + after;
  }

  const recording& r_;
  replay_terms terms_;
  rehearsal_listener* listener_;
  recorded_incarnations incarnations_;
  std::deque<shard> shards_;
  std::vector<worker> workers_; ///< by rank
  std::uint64_t passed_ = 0;    ///< switches
  std::uint64_t gradients_ = 0; ///< gradients that any shard has taken
};

/// Completes the entries of each shard with the joins, gradients and switches that any other shard has taken.
void complete_what_began(recording& cut, const rehearsal& so_far) {
  const std::size_t workers = cut.header.workers;
  for (std::size_t s = 0; s < cut.entries.size(); ++s) {
    std::vector<order_entry>& entries = cut.entries[s];
    entries.resize(so_far.entries_taken(s));
    for (std::uint32_t w = 0; w < workers; ++w)
      if (!so_far.joined(s, w)) entries.push_back({kind::joined, {w}});
    for (const order_entry& t : so_far.last_gradients())
      if (so_far.step_taken(s, t.worker.value) < t.step.value) entries.push_back(t);
    for (std::uint64_t made = so_far.switches_made(s); made < cut.end.switches.size(); ++made)
      entries.push_back({kind::switched, {}});
  }
}

/// Lets each worker leave as soon as it can, which may let other workers go on.
void let_all_leave(recording& cut, const replay_terms& terms) {
  rehearsal again(cut, terms);
  for (bool left = true; left;) {
    again.run();
    left = false;
    for (std::size_t s = 0; s < cut.entries.size(); ++s)
      for (std::uint32_t w = 0; w < cut.header.workers; ++w) {
        const std::uint64_t arrived = again.step_arrived(s, w);
        if (again.entries_taken(s) < cut.entries[s].size() || again.left(s, w)) continue;
        if (arrived == 0 && !again.gone(w)) continue;
        if (arrived == 0)
          cut.entries[s].push_back({kind::left, {w}});
        else // a gradient of its remaining local steps, or of a step that it held
          cut.entries[s].push_back({kind::gradient, {w}, arrived});
        again.run();
        left = true;
      }
  }
}

[[noreturn]] void refuse_times(const recording& r, const std::string& why) {
  throw recording_error(fmt::format("recording '{}' does not tell how long steps took: {}", r.name, why));
}

/// A gradient, and the steps that it took to make it.
struct timed_push {
  std::optional<instant> begun; ///< none for the first one of a worker
  instant judged{0};
  instant::rep steps = 1;

  instant step() const { return (judged - *begun) / steps; }
};

/// Notes the moments of the first shard.
class first_shard final : public rehearsal_listener {
public:
  explicit first_shard(const recording& r) : r_(r), workers_(r.header.workers) {}

  void judged(std::size_t shard, const order_entry& entry, verdict what, std::uint64_t gap,
              std::uint64_t batches) override {
    if (shard != 0) return;
    worker& w = workers_[entry.worker.value];
    const instant at{entry.arrived};
    require_near(at);
    if (w.answered && at < *w.answered)
      refuse_times(r_, fmt::format("worker {} had its weights after its step {} had come", entry.worker.value,
                                   entry.step.value));
    now_ = w.pushes.empty() && !begun_ ? at : std::max(now_, at);
    begun_ = true;
    if (!w.pushes.empty()) waited_ += *w.answered - w.pushes.back().judged;
    const bool first = w.pushes.empty();
    w.pushes.push_back({first ? std::nullopt : w.answered, at,
                        std::max<instant::rep>(1, static_cast<instant::rep>(batches - w.batches))});
    w.batches = batches;
    if (what == verdict::discard) ++discarded_;
    if (what == verdict::apply) gaps_.count(gap);
    if (what == verdict::merge) merging_.push_back({gap, merges_});
    if (what == verdict::defer) deferred_.push_back({gap, merges_});
  }
  /// In a queue a gradient has aged by a version for each update that others made before it.
  void merged(std::size_t shard, std::uint64_t gradients) override {
    if (shard != 0) return;
    for (; gradients > 0 && !merging_.empty(); --gradients) {
      gaps_.count(merging_.front().gap + merges_ - merging_.front().merges);
      merging_.pop_front();
    }
    ++merges_;
  }
  void round_over(std::size_t shard) override {
    if (shard == 0) merging_ = std::exchange(deferred_, {});
  }
  void answered(std::size_t shard, rank of) override {
    if (shard == 0 && begun_) workers_[of.value].answered = now_;
  }

  recorded_pace pace(version_number updates) const {
    const instant from = begin();
    recorded_pace p;
    instant last = from;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      p.steps.push_back(steps_of(w, from));
      last = std::max(last, workers_[w].pushes.back().judged);
    }
    p.lasted = last - from;
    p.waited = waited_;
    p.updates = updates.value;
    p.discarded = discarded_;
    p.gaps = gaps_;
    return p;
  }

private:
  /// So that sums of times are no more than a number can hold, whatever the file says.
  void require_near(instant at) {
    constexpr instant furthest{std::int64_t{1} << 61}, longest{std::int64_t{1} << 52}; // 73 years, 52 days
    if (!begun_) first_ = at;
    if (first_ < -furthest || first_ > furthest || at < first_ - longest || at > first_ + longest)
      refuse_times(r_, "its gradients came at moments that lie too far apart");
  }

  struct worker {
    std::optional<instant> answered;
    std::uint64_t batches = 0;
    std::vector<timed_push> pushes;
  };

  struct merging_gradient {
    std::uint64_t gap = 0;    ///< when it came
    std::uint64_t merges = 0; ///< updates of merged gradients before that
  };

  /// The median of those whose begin is known.
  instant usual_step(std::size_t w) const {
    const std::vector<timed_push>& pushes = workers_[w].pushes;
    if (pushes.size() < 2)
      refuse_times(r_, fmt::format("worker {} made {} exchange{}, and at least 2 are needed", w,
                                   pushes.size(), pushes.size() == 1 ? "" : "s"));
    std::vector<instant> steps;
    for (std::size_t i = 1; i < pushes.size(); ++i) steps.push_back(pushes[i].step());
    const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
    std::ranges::nth_element(steps, middle);
    return *middle;
  }
  instant begin() const {
    instant latest = instant::max();
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      const instant usual = usual_step(w);
      const timed_push& first = workers_[w].pushes.front();
      if (first.steps > (std::int64_t{1} << 61) / std::max<instant::rep>(1, usual.count()))
        refuse_times(r_, fmt::format("worker {} made too many steps before its first exchange", w));
      latest = std::min(latest, first.judged - usual * first.steps);
    }
    return latest;
  }
  /// The first steps of an exchange have what does not divide.
  std::vector<instant> steps_of(std::size_t w, instant begin) const {
    std::vector<instant> steps;
    for (const timed_push& p : workers_[w].pushes) {
      const instant all = p.judged - p.begun.value_or(begin);
      for (instant::rep i = 0; i < p.steps; ++i)
        steps.push_back(all / p.steps + (i == 0 ? all % p.steps : instant{0}));
    }
    return steps;
  }

  const recording& r_;
  std::vector<worker> workers_;
  instant now_{0}; ///< the last moment known
  instant first_{0};
  bool begun_ = false;
  instant waited_{0};
  std::uint64_t discarded_ = 0;
  std::deque<merging_gradient> merging_;
  std::deque<merging_gradient> deferred_; ///< that wait for the next round
  std::uint64_t merges_ = 0;
  staleness_histogram gaps_;
};

} // namespace

void require_replay_ends(const recording& r, const replay_terms& terms) {
  rehearsal all(r, terms);
  all.run();
  if (!all.has_ended())
    throw recording_error("recording '" + r.name + "' cannot be repeated to its end: " + all.obstacle());
}

recording repeatable_part(const recording& r, const replay_terms& terms) {
  require_repeatable(r);
  rehearsal so_far(r, terms);
  so_far.run();
  recording cut = r;
  std::uint64_t switches = 0;
  for (std::size_t s = 0; s < r.entries.size(); ++s) switches = std::max(switches, so_far.switches_made(s));
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

recorded_pace pace_of(const recording& r, const replay_terms& terms) {
  if (r.killed) refuse_times(r, "it was not completed, so it has no end");
  if (recorded_incarnations(r).any_change() || r.header.ranks() != r.header.workers)
    refuse_times(r, "workers came or went while it went on");
  require_replay_ends(r, terms);
  first_shard heard(r);
  rehearsal all(r, terms, &heard);
  all.run();
  return heard.pace(all.version(0));
}

} // namespace mailgrad
