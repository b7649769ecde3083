#include <mailgrad/engine/shard/gradient_order.hpp>

namespace mailgrad {

gradient_order::gradient_order(shard_index shard, std::uint32_t workers, shard_port& port,
                               const recorded_order* replayed)
    : shard_(shard), port_(port), replays_(replayed != nullptr), workers_(workers) {
  if (!replayed) return;
  cut_ = replayed->cut;
  for (const order_entry& entry : replayed->entries) expect(entry);
}

void gradient_order::join(rank worker, incarnation_number incarnation) {
  come_back(worker, incarnation);
  if (is_followed()) return;
  workers_[worker.value].of_entries = incarnation;
  own_.push_back({order_entry::of(order_entry::kind::joined, worker, incarnation), {}});
}

void gradient_order::arrive(push_gradient x, std::int64_t at) {
  const gradient_id id = x.header.id;
  if (is_followed())
    workers_[id.worker.value].arrived = std::move(x);
  else
    own_.push_back({{order_entry::kind::gradient, id.worker, id.step, {}, at}, std::move(x)});
}

void gradient_order::leave(rank worker, incarnation_number incarnation) {
  note_left(worker, incarnation);
  if (!is_followed()) own_.push_back({order_entry::of(order_entry::kind::left, worker, incarnation), {}});
}

std::optional<gradient_order::ready> gradient_order::next() {
  if (is_followed()) return next_followed();
  if (own_.empty()) return std::nullopt;
  ready first = std::move(own_.front());
  own_.erase(own_.begin());
  return first;
}

/// An incarnation that another has replaced here has left, too.
bool gradient_order::is_ready(const order_entry& entry) const {
  const of_worker& w = workers_[entry.worker.value];
  switch (entry.what) {
  case order_entry::kind::joined:
    return w.has_left(entry.incarnation()) || (w.joined && *w.joined >= entry.incarnation());
  case order_entry::kind::gradient:
  case order_entry::kind::missed:
    return w.has_left(w.of_entries) || (w.joined && *w.joined > w.of_entries) ||
           (w.arrived && w.arrived->header.id.step == entry.step);
  case order_entry::kind::left:
  case order_entry::kind::kept:
  case order_entry::kind::closed:
    return true;
  case order_entry::kind::switched:
    return false;
  }
  return false;
}

/// An entry that ends a policy is left to take_switch().
std::optional<gradient_order::ready> gradient_order::next_followed() {
  if (entries_.empty() || !is_ready(entries_.front())) return std::nullopt;
  ready r{entries_.front(), std::nullopt};
  entries_.pop_front();
  ++taken_;
  of_worker& w = workers_[r.entry.worker.value];
  if (r.entry.what == order_entry::kind::joined) {
    w.of_entries = r.entry.incarnation();
    w.greeted = w.of_entries;
  }
  const bool leaves = r.entry.what == order_entry::kind::left;
  if (leaves) note_left(r.entry.worker, r.entry.incarnation());
  const bool of_gradient =
      r.entry.what == order_entry::kind::gradient || r.entry.what == order_entry::kind::missed;
  const bool its_turn = of_gradient && w.arrived && w.arrived->header.id.step == r.entry.step;
  if (leaves || its_turn) r.gradient = std::exchange(w.arrived, std::nullopt);
  return r;
}

void gradient_order::take_switch(bool recorded) {
  if (is_followed()) {
    entries_.pop_front();
    ++taken_;
  }
  const order_entry entry{order_entry::kind::switched, {}};
  if (recorded) port_.note(entry);
  tell_others(entry);
}

/// Reading takes as many entries off.
void gradient_order::keep(archive& a) {
  if (!replays_) return;
  a.group("recorded", [&] {
    a.field("taken", taken_);
    const std::size_t workers = workers_.size();
    a.field("workers", workers_);
    if (!a.reads()) return;
    if (workers_.size() != workers) throw archive_error("the order is of another number of workers");
    if (taken_ > entries_.size()) throw archive_error("the order has fewer turns than were taken");
    const auto next = entries_.begin() + static_cast<std::ptrdiff_t>(taken_);
    for (auto entry = entries_.begin(); entry != next; ++entry)
      if (entry->what == order_entry::kind::joined)
        workers_[entry->worker.value].greeted = entry->incarnation();
    entries_.erase(entries_.begin(), next);
  });
}

} // namespace mailgrad
