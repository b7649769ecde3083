#include <mailgrad/engine/record/recorded_lives.hpp>

#include <mailgrad/engine/shard/turns_of_worker.hpp>

#include <algorithm>
#include <limits>
#include <optional>

namespace mailgrad {

namespace {

using kind = order_entry::kind;

constexpr std::uint64_t never_joined = std::numeric_limits<std::uint64_t>::max();

bool is_of_the_beginning(const recording& r, rank worker, incarnation life) {
  return worker.value < r.header.workers && life == incarnation{};
}

} // namespace

recorded_lives::recorded_lives(const recording& r) : lives_(r.header.ranks()) {
  add_those_with_batches(r);
  add_those_that_joined(r);
  note_who_was_cut(r);
  add_steps_before_switches(r);
}

/// The life of a rank, which gets it in its place if it lacks it.
recorded_life& recorded_lives::get(rank worker, incarnation life) {
  std::vector<recorded_life>& lives = lives_[worker.value];
  const auto at = std::ranges::lower_bound(lives, life, {}, &recorded_life::life);
  if (at != lives.end() && at->life == life) return *at;
  const std::size_t place = at != lives.end() ? at->first : lives.empty() ? 0 : lives.back().end;
  return *lives.insert(at, {life, place, place, never_joined});
}

void recorded_lives::add_those_with_batches(const recording& r) {
  for (std::uint32_t w = 0; w < lives_.size(); ++w) {
    const std::vector<dealt_life> dealt = w < r.lives.size() ? r.lives[w] : std::vector<dealt_life>{};
    const std::size_t before = dealt.empty() ? r.batches[w].size() : dealt.front().first;
    if (w < r.header.workers || before > 0) get({w}, {}).end = before;
    for (std::size_t i = 0; i < dealt.size(); ++i) {
      recorded_life& one = get({w}, dealt[i].life);
      one.first = dealt[i].first;
      one.end = i + 1 < dealt.size() ? dealt[i + 1].first : r.batches[w].size();
      one.cut = dealt[i].cut;
    }
  }
}

/// The policy may switch while a joining is under way to a shard. Then the first shard that has it counts.
void recorded_lives::add_those_that_joined(const recording& r) {
  for (const std::vector<order_entry>& turns : r.turns) {
    std::uint64_t switches = 0;
    for (const order_entry& t : turns) {
      if (t.what == kind::switched) ++switches;
      if (t.what != kind::joined) continue;
      recorded_life& one = get(t.worker, t.life());
      one.switches = std::min(one.switches, switches);
    }
  }
  add_those_that_only_left(r);
  for (std::uint32_t w = 0; w < lives_.size(); ++w) {
    std::erase_if(lives_[w], [&](const recorded_life& one) {
      return one.switches == never_joined && !is_of_the_beginning(r, {w}, one.life);
    });
    for (recorded_life& one : lives_[w]) {
      if (one.switches == never_joined) one.switches = 0; // it was expected, and did not come
      one.late = !is_of_the_beginning(r, {w}, one.life);
    }
  }
}

/// One that was lost before a shard had its joining leaves a turn where the switch counted it as present: at
/// once, when that shard begins the policy.
void recorded_lives::add_those_that_only_left(const recording& r) {
  for (const std::vector<order_entry>& turns : r.turns) {
    std::uint64_t switches = 0;
    std::vector<std::optional<incarnation>> joined(lives_.size());
    for (const order_entry& t : turns) {
      if (t.what == kind::switched) ++switches;
      if (t.what == kind::joined) joined[t.worker.value] = t.life();
      if (t.what != kind::left || switches == 0 || joined[t.worker.value] == t.life() ||
          is_of_the_beginning(r, t.worker, t.life()))
        continue;
      recorded_life& one = get(t.worker, t.life());
      if (one.switches == never_joined) one.switches = switches - 1;
      one.cut = true;
    }
  }
}

void recorded_lives::note_who_was_cut(const recording& r) {
  for (std::uint32_t w = 0; w < lives_.size(); ++w) {
    const bool lost = std::ranges::find(r.end.lost, w) != r.end.lost.end();
    for (recorded_life& one : lives_[w]) {
      one.cut = one.cut || lost || &one != &lives_[w].back();
      any_change_ = any_change_ || one.cut || one.late;
    }
  }
}

/// The turns of a killed run may end before a switch that was written down.
void recorded_lives::add_steps_before_switches(const recording& r) {
  steps_.assign(r.end.switches.size(), std::vector<step_number>(lives_.size()));
  for (const std::vector<order_entry>& turns : r.turns) {
    std::vector<turns_of_worker> had(lives_.size());
    std::size_t switches = 0;
    const auto note = [&] {
      for (std::size_t w = 0; w < lives_.size() && switches < steps_.size(); ++w)
        if (const recorded_life* one = before_switch(w, switches))
          steps_[switches][w] = std::max(steps_[switches][w], had[w].last_step(one->life));
      ++switches;
    };
    for (const order_entry& t : turns)
      if (t.what == kind::switched)
        note();
      else
        had[t.worker.value].add(t);
    note();
  }
}

const recorded_life* recorded_lives::find(rank worker, incarnation life) const {
  if (worker.value >= lives_.size()) return nullptr;
  const auto at = std::ranges::find(lives_[worker.value], life, &recorded_life::life);
  return at == lives_[worker.value].end() ? nullptr : &*at;
}

const recorded_life* recorded_lives::before_switch(std::size_t rank, std::uint64_t switches) const {
  const auto& of = lives_[rank];
  const auto last = std::ranges::find_if(of.rbegin(), of.rend(),
                                         [=](const recorded_life& one) { return one.switches <= switches; });
  return last == of.rend() ? nullptr : &*last;
}

std::uint64_t recorded_lives::batches_before(const recorded_switch& s, std::uint64_t switches,
                                             std::size_t rank) const {
  const recorded_life* one = before_switch(rank, switches);
  return one != nullptr && one->cut ? std::min<std::uint64_t>(s.batches[rank], one->end) : s.batches[rank];
}

} // namespace mailgrad
