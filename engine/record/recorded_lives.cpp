#include <mailgrad/engine/record/recorded_lives.hpp>
#include <mailgrad/engine/shard/order_entry.hpp>

#include <algorithm>
#include <iterator>
#include <limits>

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

recorded_order order_of(const recording& r, shard_index shard) {
  const recorded_lives lives(r);
  recorded_order order{r.turns[shard.value], {}};
  for (std::size_t w = 0; w < lives.ranks(); ++w) {
    std::vector<incarnation>& cut = order.cut.emplace_back();
    for (const recorded_life& one : lives.of(w))
      if (one.cut) cut.push_back(one.life);
  }
  return order;
}

recorded_batches::recorded_batches(std::shared_ptr<const recording> what)
    : what_(std::move(what)), lives_(*what_), now_(lives_.ranks()), dealt_(lives_.ranks()),
      at_switch_(lives_.ranks()), gone_(lives_.ranks()) {
  for (std::uint32_t r = 0; r < what_->header.workers; ++r) now_[r] = incarnation{};
}

/// One that the recording does not know gets nothing.
void recorded_batches::begin(rank worker, incarnation life) {
  now_[worker.value] = life;
  gone_[worker.value] = at_switch_[worker.value] = false;
  if (const recorded_life* one = lives_.find(worker, life)) dealt_[worker.value] = one->first;
}

bool recorded_batches::holds(rank worker) const {
  const std::size_t r = worker.value;
  return switch_left() && takes_part(r) &&
         dealt_[r] >= lives_.batches_before(what_->end.switches[passed_], passed_, r);
}

/// Whether who asks now as this rank takes part in the next switch, and not an incarnation after it.
bool recorded_batches::takes_part(std::size_t r) const {
  if (what_->end.switches[passed_].present[r] == 0 || !now_[r]) return false;
  const recorded_life* one = lives_.before_switch(r, passed_);
  return one != nullptr && one->life == *now_[r];
}

std::optional<std::uint64_t> recorded_batches::next(rank worker) {
  const std::size_t r = worker.value;
  const recorded_life* one = now_[r] ? lives_.find(worker, *now_[r]) : nullptr;
  if (one == nullptr || dealt_[r] >= one->end) return std::nullopt;
  return what_->batches[r][dealt_[r]++];
}

bool recorded_batches::is_at_switch(std::size_t r) const {
  return what_->end.switches[passed_].present[r] == 0 || (takes_part(r) && (at_switch_[r] || gone_[r]));
}

std::optional<std::uint64_t> recorded_batches::reached_switch() {
  if (!switch_left() || told_ > passed_) return std::nullopt;
  for (std::size_t r = 0; r < gone_.size(); ++r)
    if (!is_at_switch(r)) return std::nullopt;
  return told_ = passed_ + 1;
}

/// Clears the list of waiting workers, because they ask again after the switch.
void recorded_batches::pass_switch() {
  ++passed_;
  at_switch_.assign(at_switch_.size(), false);
}

void recorded_batches::go_on_from(std::span<const std::uint64_t> trained, std::uint64_t switches) {
  dealt_.assign(trained.begin(), trained.end());
  dealt_.resize(gone_.size());
  passed_ = told_ = switches;
}

recorded_seats::recorded_seats(const recorded_lives& of) : seats_(of.ranks()) {
  for (std::size_t r = 0; r < seats_.size(); ++r)
    std::ranges::copy_if(of.of(r), std::back_inserter(seats_[r].lives), &recorded_life::late);
}

bool recorded_seats::any() const {
  return std::ranges::any_of(seats_, [](const seat& s) { return s.next < s.lives.size(); });
}

bool recorded_seats::any_due(std::uint64_t switches) const {
  return std::ranges::any_of(seats_, [=](const seat& s) { return is_due(s, switches); });
}

std::optional<incarnation> recorded_seats::bring(rank worker, std::uint64_t switches) {
  if (worker.value >= seats_.size()) return std::nullopt;
  seat& s = seats_[worker.value];
  if (!is_due(s, switches) || std::exchange(s.brought, true)) return std::nullopt;
  return s.lives[s.next].life;
}

bool recorded_seats::was_brought(rank worker, incarnation life) const {
  if (worker.value >= seats_.size()) return false;
  const seat& s = seats_[worker.value];
  return s.brought && s.lives[s.next].life == life;
}

std::optional<std::pair<rank, incarnation>> recorded_seats::brought() const {
  const auto one = std::ranges::find(seats_, true, &seat::brought);
  if (one == seats_.end()) return std::nullopt;
  return std::pair{rank{static_cast<std::uint32_t>(one - seats_.begin())}, one->lives[one->next].life};
}

void recorded_seats::sit(rank worker, incarnation life) {
  if (!was_brought(worker, life)) return;
  seat& s = seats_[worker.value];
  s.brought = false;
  ++s.next;
}

} // namespace mailgrad
