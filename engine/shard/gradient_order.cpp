#include <mailgrad/engine/shard/gradient_order.hpp>

#include <utility>

namespace mailgrad {

gradient_order::gradient_order(shard_index shard, std::uint32_t workers, shard_port& port,
                               const recorded_order* replayed)
    : shard_(shard), port_(port), replays_(replayed != nullptr), workers_(workers) {
  if (!replayed) return;
  cut_ = replayed->cut;
  for (const order_entry& turn : replayed->turns) expect(turn);
}

void gradient_order::expect(const order_entry& turn) {
  turns_.push_back(turn);
  if (turn.what != order_entry::kind::switched) workers_[turn.worker.value].known.add(turn);
}

void gradient_order::join(rank worker, incarnation life) {
  come_back(worker, life);
  if (is_followed()) return;
  workers_[worker.value].turns = life;
  own_.push_back({order_entry::of(order_entry::kind::joined, worker, life), {}});
}

void gradient_order::come_back(rank worker, incarnation life) {
  std::optional<incarnation>& joined = workers_[worker.value].joined;
  if (!joined || *joined < life) joined = life;
}

void gradient_order::arrive(push_gradient x, std::int64_t at) {
  const gradient_id id = x.header.id;
  if (is_followed())
    workers_[id.worker.value].arrived = std::move(x);
  else
    own_.push_back({{order_entry::kind::gradient, id.worker, id.step, {}, at}, std::move(x)});
}

void gradient_order::leave(rank worker, incarnation life) {
  note_left(worker, life);
  if (!is_followed()) own_.push_back({order_entry::of(order_entry::kind::left, worker, life), {}});
}

void gradient_order::note_left(rank worker, incarnation life) {
  std::optional<incarnation>& left = workers_[worker.value].left;
  if (!left || *left < life) left = life;
}

void gradient_order::close(std::int64_t moment) {
  if (!is_followed()) own_.push_back({{order_entry::kind::closed, {}, {}, {}, moment}, {}});
}

std::optional<gradient_order::ready> gradient_order::next() {
  if (is_followed()) return next_followed();
  if (own_.empty()) return std::nullopt;
  ready first = std::move(own_.front());
  own_.erase(own_.begin());
  return first;
}

/// An incarnation that another has replaced here has left, too.
bool gradient_order::is_ready(const order_entry& turn) const {
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

/// A turn that ends a policy is left to take_switch().
std::optional<gradient_order::ready> gradient_order::next_followed() {
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
  if (leaves) note_left(r.turn.worker, r.turn.life());
  const bool of_gradient =
      r.turn.what == order_entry::kind::gradient || r.turn.what == order_entry::kind::missed;
  const bool its_turn = of_gradient && w.arrived && w.arrived->header.id.step == r.turn.step;
  if (leaves || its_turn) r.gradient = std::exchange(w.arrived, std::nullopt);
  return r;
}

void gradient_order::take_switch(bool recorded) {
  if (is_followed()) {
    turns_.pop_front();
    ++taken_;
  }
  const order_entry turn{order_entry::kind::switched, {}};
  if (recorded) port_.note(turn);
  tell_others(turn);
}

void gradient_order::announce(const order_entry& turn) {
  port_.note(turn);
  tell_others(turn);
}

void gradient_order::announce_kept(std::uint64_t checkpoint) {
  port_.note_kept(checkpoint);
  tell_others({order_entry::kind::kept, {}, {checkpoint}});
}

void gradient_order::tell_others(const order_entry& turn) {
  if (shards_agree_ && !is_followed()) port_.tell_followers(turn);
}

/// Reading takes as many turns off.
void gradient_order::keep(archive& a) {
  if (!replays_) return;
  a.group("recorded", [&] {
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
  });
}

} // namespace mailgrad
