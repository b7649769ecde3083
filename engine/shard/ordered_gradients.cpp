#include <mailgrad/engine/shard/ordered_gradients.hpp>

#include <utility>

namespace mailgrad {

void ordered_gradients::expect(const order_entry& turn) {
  turns_.push_back(turn);
  if (turn.what == order_entry::kind::gradient) workers_[turn.worker.value].last_step = turn.step;
}

void ordered_gradients::forget(rank worker) {
  workers_[worker.value].joined = false;
  ++workers_[worker.value].left;
}

void ordered_gradients::pass_leaving(rank worker) {
  of_worker& w = workers_[worker.value];
  if (++w.turns_of_leaving > w.left) w.joined = false; // known from the order before the worker's end is
}

bool ordered_gradients::is_ready(const order_entry& turn) const {
  const of_worker& w = workers_[turn.worker.value];
  const bool gone = w.left > w.turns_of_leaving || (w.left > 0 && !w.joined);
  switch (turn.what) {
  case order_entry::kind::joined:
    return gone || w.joined;
  case order_entry::kind::gradient:
    return gone || (w.arrived && w.arrived->header.id.step == turn.step);
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
  const bool leaves = r.turn.what == order_entry::kind::left;
  if (leaves) pass_leaving(r.turn.worker);
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
