#pragma once

#include <mailgrad/engine/shard/order_entry.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>

#include <deque>
#include <optional>
#include <vector>

namespace mailgrad {

/// Puts what happens to a shard into an order that another gave: a gradient that came early waits for its
/// turn, a turn whose gradient is not there yet holds up those behind it.
///
/// A worker has one gradient under way at most.
/// Threads  one caller at a time.
class ordered_gradients {
public:
  explicit ordered_gradients(std::uint32_t workers)
      : joined_(workers), gone_(workers), arrived_(workers), last_steps_(workers) {}

  /// What comes next in the order.
  void expect(const order_entry& turn);
  /// The last step of the worker that has a turn, as far as the order is known; 0: none has.
  std::uint64_t last_step(rank worker) const { return last_steps_[worker.value]; }
  void join(rank worker) { joined_[worker.value] = true; }
  void arrive(const push_gradient& x) { arrived_[x.worker.value] = x; }
  /// Nothing more arrives from this worker: a turn of its that has no gradient is not waited for.
  void forget(rank worker) { gone_[worker.value] = true; }

  /// A turn and its gradient; none for other turns, and for a gradient that is lost.
  struct ready {
    order_entry turn;
    std::optional<push_gradient> gradient;
  };
  /// Takes the next turn off the queue, if all it needs is there and it does not end a policy.
  std::optional<ready> next();

  /// Gradients of this worker whose turn has not come.
  std::uint64_t waiting(rank worker) const { return arrived_[worker.value] ? 1 : 0; }

  bool switch_is_next() const {
    return !turns_.empty() && turns_.front().what == order_entry::kind::switched;
  }
  void take_switch() { turns_.pop_front(); }

private:
  bool is_ready(const order_entry& turn) const;

  std::deque<order_entry> turns_;
  std::vector<bool> joined_;                          ///< by rank
  std::vector<bool> gone_;                            ///< by rank
  std::vector<std::optional<push_gradient>> arrived_; ///< by rank
  std::vector<std::uint64_t> last_steps_;             ///< by rank
};

} // namespace mailgrad
