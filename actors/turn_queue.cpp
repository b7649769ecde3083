#include <mailgrad/actors/turn_queue.hpp>

#include <utility>

namespace mailgrad {

void turn_queue::expect(const shard_turn& turn) {
  turns_.push_back(turn);
  if (turn.what == shard_turn::kind::gradient) last_steps_[turn.worker.value] = turn.step;
}

bool turn_queue::is_ready(const shard_turn& turn) const {
  const std::uint32_t r = turn.worker.value;
  switch (turn.what) {
  case shard_turn::kind::joined:
    return joined_[r] || gone_[r];
  case shard_turn::kind::gradient:
    return gone_[r] || (arrived_[r] && arrived_[r]->step == turn.step);
  case shard_turn::kind::left:
    return true;
  case shard_turn::kind::switched:
    return false;
  }
  return false;
}

std::optional<turn_queue::ready> turn_queue::next() {
  if (turns_.empty() || !is_ready(turns_.front())) return std::nullopt;
  ready r{turns_.front(), std::nullopt};
  turns_.pop_front();
  std::optional<push_gradient>& slot = arrived_[r.turn.worker.value];
  if (r.turn.what == shard_turn::kind::gradient && slot && slot->step == r.turn.step)
    r.gradient = std::exchange(slot, std::nullopt);
  return r;
}

} // namespace mailgrad
