#include <mailgrad/engine/record/recorded_incarnations.hpp>

#include <iterator>

namespace mailgrad {

namespace {

using kind = order_entry::kind;

constexpr std::uint64_t never_joined = std::numeric_limits<std::uint64_t>::max();

bool is_of_the_beginning(const recording& r, rank worker, incarnation_number incarnation) {
  return worker.value < r.header.workers && incarnation == incarnation_number{};
}

} // namespace

recorded_incarnations::recorded_incarnations(const recording& r) : incarnations_(r.header.ranks()) {
  add_those_with_batches(r);
  add_those_that_joined(r);
  note_who_was_cut(r);
  add_steps_before_switches(r);
}

/// The incarnation of a rank, which gets it in its place if it lacks it.
recorded_incarnation& recorded_incarnations::get(rank worker, incarnation_number incarnation) {
  std::vector<recorded_incarnation>& incarnations = incarnations_[worker.value];
  const auto at = std::ranges::lower_bound(incarnations, incarnation, {}, &recorded_incarnation::incarnation);
  if (at != incarnations.end() && at->incarnation == incarnation) return *at;
  const std::size_t place = at != incarnations.end() ? at->first
                            : incarnations.empty()   ? 0
                                                     : incarnations.back().end;
  return *incarnations.insert(at, {incarnation, place, place, never_joined});
}

void recorded_incarnations::add_those_with_batches(const recording& r) {
  for (std::uint32_t w = 0; w < incarnations_.size(); ++w) {
    const std::vector<dealt_incarnation> dealt =
        w < r.incarnations.size() ? r.incarnations[w] : std::vector<dealt_incarnation>{};
    const std::size_t before = dealt.empty() ? r.batches[w].size() : dealt.front().first;
    if (w < r.header.workers || before > 0) get({w}, {}).end = before;
    for (std::size_t i = 0; i < dealt.size(); ++i) {
      recorded_incarnation& one = get({w}, dealt[i].incarnation);
      one.first = dealt[i].first;
      one.end = i + 1 < dealt.size() ? dealt[i + 1].first : r.batches[w].size();
      one.cut = dealt[i].cut;
    }
  }
}

/// The policy may switch while a joining is under way to a shard. Then the first shard that has it counts.
void recorded_incarnations::add_those_that_joined(const recording& r) {
  for (const std::vector<order_entry>& entries : r.entries) {
    std::uint64_t switches = 0;
    for (const order_entry& t : entries) {
      if (t.what == kind::switched) ++switches;
      if (t.what != kind::joined) continue;
      recorded_incarnation& one = get(t.worker, t.incarnation());
      one.switches = std::min(one.switches, switches);
    }
  }
  add_those_that_only_left(r);
  for (std::uint32_t w = 0; w < incarnations_.size(); ++w) {
    std::erase_if(incarnations_[w], [&](const recorded_incarnation& one) {
      return one.switches == never_joined && !is_of_the_beginning(r, {w}, one.incarnation);
    });
    for (recorded_incarnation& one : incarnations_[w]) {
      if (one.switches == never_joined) one.switches = 0; // it was expected, and did not come
      one.late = !is_of_the_beginning(r, {w}, one.incarnation);
    }
  }
}

/// One that was lost before it joined leaves an entry where the switch counted it as present.
void recorded_incarnations::add_those_that_only_left(const recording& r) {
  for (const std::vector<order_entry>& entries : r.entries) {
    std::uint64_t switches = 0;
    std::vector<std::optional<incarnation_number>> joined(incarnations_.size());
    for (const order_entry& t : entries) {
      if (t.what == kind::switched) ++switches;
      if (t.what == kind::joined) joined[t.worker.value] = t.incarnation();
      if (t.what != kind::left || switches == 0 || joined[t.worker.value] == t.incarnation() ||
          is_of_the_beginning(r, t.worker, t.incarnation()))
        continue;
      recorded_incarnation& one = get(t.worker, t.incarnation());
      if (one.switches == never_joined) one.switches = switches - 1;
      one.cut = true;
    }
  }
}

void recorded_incarnations::note_who_was_cut(const recording& r) {
  for (std::uint32_t w = 0; w < incarnations_.size(); ++w) {
    const bool lost = std::ranges::find(r.end.lost, w) != r.end.lost.end();
    for (recorded_incarnation& one : incarnations_[w]) {
      one.cut = one.cut || lost || &one != &incarnations_[w].back();
      any_change_ = any_change_ || one.cut || one.late;
    }
  }
}

/// The entries of a killed run may end before a switch that was written down.
void recorded_incarnations::add_steps_before_switches(const recording& r) {
  steps_.assign(r.end.switches.size(), std::vector<step_number>(incarnations_.size()));
  for (const std::vector<order_entry>& entries : r.entries) {
    std::vector<entries_of_worker> had(incarnations_.size());
    std::size_t switches = 0;
    const auto note = [&] {
      for (std::size_t w = 0; w < incarnations_.size() && switches < steps_.size(); ++w)
        if (const recorded_incarnation* one = before_switch(w, switches))
          steps_[switches][w] = std::max(steps_[switches][w], had[w].last_step(one->incarnation));
      ++switches;
    };
    for (const order_entry& t : entries)
      if (t.what == kind::switched)
        note();
      else
        had[t.worker.value].add(t);
    note();
  }
}

const recorded_incarnation* recorded_incarnations::find(rank worker, incarnation_number incarnation) const {
  if (worker.value >= incarnations_.size()) return nullptr;
  const auto at =
      std::ranges::find(incarnations_[worker.value], incarnation, &recorded_incarnation::incarnation);
  return at == incarnations_[worker.value].end() ? nullptr : &*at;
}

const recorded_incarnation* recorded_incarnations::before_switch(std::size_t rank,
                                                                 std::uint64_t switches) const {
  const auto& of = incarnations_[rank];
  const auto last = std::ranges::find_if(
      of.rbegin(), of.rend(), [=](const recorded_incarnation& one) { return one.switches <= switches; });
  return last == of.rend() ? nullptr : &*last;
}

recorded_order order_of(const recording& r, shard_index shard) {
  const recorded_incarnations incarnations(r);
  recorded_order order{r.entries[shard.value], {}};
  for (std::size_t w = 0; w < incarnations.ranks(); ++w) {
    std::vector<incarnation_number>& cut = order.cut.emplace_back();
    for (const recorded_incarnation& one : incarnations.of(w))
      if (one.cut) cut.push_back(one.incarnation);
  }
  return order;
}

/// One that the recording does not know gets nothing.
void recorded_batches::begin(rank worker, incarnation_number incarnation) {
  now_[worker.value] = incarnation;
  gone_[worker.value] = at_switch_[worker.value] = false;
  if (const recorded_incarnation* one = incarnations_.find(worker, incarnation))
    dealt_[worker.value] = one->first;
}

std::optional<std::uint64_t> recorded_batches::next(rank worker) {
  const std::size_t r = worker.value;
  const recorded_incarnation* one = now_[r] ? incarnations_.find(worker, *now_[r]) : nullptr;
  if (one == nullptr || dealt_[r] >= one->end) return std::nullopt;
  return what_->batches[r][dealt_[r]++];
}

std::optional<std::uint64_t> recorded_batches::reached_switch() {
  if (!switch_left() || told_ > passed_) return std::nullopt;
  for (std::size_t r = 0; r < gone_.size(); ++r)
    if (!is_at_switch(r)) return std::nullopt;
  return told_ = passed_ + 1;
}

std::optional<incarnation_number> recorded_slots::bring(rank worker, std::uint64_t switches) {
  if (worker.value >= slots_.size()) return std::nullopt;
  slot& s = slots_[worker.value];
  if (!is_due(s, switches) || std::exchange(s.brought, true)) return std::nullopt;
  return s.incarnations[s.next].incarnation;
}

std::optional<std::pair<rank, incarnation_number>> recorded_slots::brought() const {
  const auto one = std::ranges::find(slots_, true, &slot::brought);
  if (one == slots_.end()) return std::nullopt;
  return std::pair{rank{static_cast<std::uint32_t>(one - slots_.begin())},
                   one->incarnations[one->next].incarnation};
}

void recorded_slots::take(rank worker, incarnation_number incarnation) {
  if (!was_brought(worker, incarnation)) return;
  slot& s = slots_[worker.value];
  s.brought = false;
  ++s.next;
}

} // namespace mailgrad
