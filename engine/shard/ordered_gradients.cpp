#include <mailgrad/engine/shard/ordered_gradients.hpp>

#include <utility>

namespace mailgrad {

void ordered_gradients::expect(const order_entry& turn) {
  turns_.push_back(turn);
  if (turn.what == order_entry::kind::gradient) last_steps_[turn.worker.value] = turn.step;
}

bool ordered_gradients::is_ready(const order_entry& turn) const {
  const std::uint32_t r = turn.worker.value;
  switch (turn.what) {
  case order_entry::kind::joined:
    return joined_[r] || gone_[r];
  case order_entry::kind::gradient:
    return gone_[r] || (arrived_[r] && arrived_[r]->header.id.step == turn.step);
  case order_entry::kind::left:
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
  std::optional<push_gradient>& slot = arrived_[r.turn.worker.value];
  if (r.turn.what == order_entry::kind::gradient && slot && slot->header.id.step == r.turn.step)
    r.gradient = std::exchange(slot, std::nullopt);
  return r;
}

} // namespace mailgrad
