#pragma once

#include <mailgrad/engine/shard/order_entry.hpp>

#include <vector>

namespace mailgrad {

/// What an order has for one worker: which of its incarnations join, and up to which step it has turns for
/// their gradients.
///
/// Threads  a value like any other.
class turns_of_worker {
public:
  /// Adds the next turn of this worker.
  void add(const order_entry& turn) {
    if (turn.what == order_entry::kind::joined) lives_.push_back({turn.life()});
    if (turn.what != order_entry::kind::gradient && turn.what != order_entry::kind::missed) return;
    if (lives_.empty()) lives_.push_back({});
    lives_.back().last = turn.step;
  }

  bool joins(incarnation life) const { return find(life) != nullptr; }
  /// 0 if it has none.
  step_number last_step(incarnation life) const {
    const of_life* one = find(life);
    return one == nullptr ? step_number{} : one->last;
  }

private:
  struct of_life {
    incarnation life{};
    step_number last{};
  };
  const of_life* find(incarnation life) const {
    for (const of_life& one : lives_)
      if (one.life == life) return &one;
    return nullptr;
  }

  std::vector<of_life> lives_;
};

} // namespace mailgrad
