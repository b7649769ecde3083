#include <mailgrad/engine/shard/ordered_gradients.hpp>

#include <utility>

namespace mailgrad {

void ordered_gradients::expect(const order_entry& turn) {
  turns_.push_back(turn);
  if (turn.what != order_entry::kind::switched) workers_[turn.worker.value].known.add(turn);
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
  case order_entry::kind::missed:
    return w.has_left(w.turns) || (w.joined && *w.joined > w.turns) ||
           (w.arrived && w.arrived->header.id.step == turn.step);
  case order_entry::kind::left:
  case order_entry::kind::kept:
  case order_entry::kind::closed:
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
  if (r.turn.what == order_entry::kind::joined) {
    w.turns = r.turn.life();
    w.greeted = w.turns;
  }
  const bool leaves = r.turn.what == order_entry::kind::left;
  if (leaves) forget(r.turn.worker, r.turn.life());
  const bool of_gradient =
      r.turn.what == order_entry::kind::gradient || r.turn.what == order_entry::kind::missed;
  const bool its_turn = of_gradient && w.arrived && w.arrived->header.id.step == r.turn.step;
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
  const auto next = turns_.begin() + static_cast<std::ptrdiff_t>(taken_);
  for (auto turn = turns_.begin(); turn != next; ++turn)
    if (turn->what == order_entry::kind::joined) workers_[turn->worker.value].greeted = turn->life();
  turns_.erase(turns_.begin(), next);
}

} // namespace mailgrad
