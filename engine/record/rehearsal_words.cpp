#include <mailgrad/engine/record/rehearsal.hpp>

// What a rehearsal waits for, and why it refuses a recording.

namespace mailgrad {

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

} // namespace mailgrad
