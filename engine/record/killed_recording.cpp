#include <mailgrad/engine/record/killed_recording.hpp>

#include <algorithm>

namespace mailgrad {

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
