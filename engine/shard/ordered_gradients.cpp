#include <mailgrad/engine/shard/ordered_gradients.hpp>

#include <utility>

namespace mailgrad {

void ordered_gradients::expect(const order_entry& turn) {
  turns_.push_back(turn);
  if (turn.what == order_entry::kind::gradient) workers_[turn.worker.value].last_step = turn.step;
}

void ordered_gradients::join(rank worker, incarnation life) {
  of_worker& w = workers_[worker.value];
  if (!w.joined || *w.joined < life) w.joined = life;
}

void ordered_gradients::pass_joining(rank worker, incarnation life) { workers_[worker.value].turns = life; }

void ordered_gradients::forget(rank worker, incarnation life) {
  of_worker& w = workers_[worker.value];
  if (!w.left || *w.left < life) w.left = life;
}

/// An incarnation that another has replaced here has left, too.
bool ordered_gradients::is_ready(const order_entry& turn) const {
  const of_worker& w = workers_[turn.worker.value];
  switch (turn.what) {
  case order_entry::kind::joined:
    return w.has_left(turn.life()) || (w.joined && *w.joined >= turn.life());
  case order_entry::kind::gradient:
    return w.has_left(w.turns) || (w.joined && *w.joined > w.turns) ||
           (w.arrived && w.arrived->header.id.step == turn.step);
  case order_entry::kind::left:
  case order_entry::kind::kept:
    return true;
  case order_entry::kind::switched:
    return false;
  }
  return false;
}

std::optional<ordered_gradients::ready> ordered_gradients::next() {
  if (turns_.empty() || !is_ready(turns_.front())) return std::nullopt;
  ready r{turns_.front(), std::nullopt};
  turns_.pop_front();
  ++taken_;
  of_worker& w = workers_[r.turn.worker.value];
  if (r.turn.what == order_entry::kind::joined) w.turns = r.turn.life();
  const bool leaves = r.turn.what == order_entry::kind::left;
  if (leaves) forget(r.turn.worker, r.turn.life());
  const bool its_turn =
      r.turn.what == order_entry::kind::gradient && w.arrived && w.arrived->header.id.step == r.turn.step;
  if (leaves || its_turn) r.gradient = std::exchange(w.arrived, std::nullopt);
  return r;
}

void ordered_gradients::keep(archive& a) {
  a.field("taken", taken_);
  const std::size_t workers = workers_.size();
  a.field("workers", workers_);
  if (!a.reads()) return;
  if (workers_.size() != workers) throw archive_error("the order is of another number of workers");
  if (taken_ > turns_.size()) throw archive_error("the order has fewer turns than were taken");
  turns_.erase(turns_.begin(), turns_.begin() + static_cast<std::ptrdiff_t>(taken_));
}

} // namespace mailgrad
