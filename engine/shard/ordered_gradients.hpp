#pragma once

#include <mailgrad/engine/shard/order_entry.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>

#include <deque>
#include <optional>
#include <vector>

namespace mailgrad {

/// Puts the events at a shard into an order that the first shard or a recording gives. A gradient that comes
/// early waits for its turn. A turn whose gradient has not arrived holds up all later ones.
///
/// A worker has at most one gradient under way.
/// Threads  one caller at a time.
class ordered_gradients {
public:
  explicit ordered_gradients(std::uint32_t workers)
      : joined_(workers), gone_(workers), arrived_(workers), last_steps_(workers) {}

  /// Appends a turn to the order.
  void expect(const order_entry& turn);
  /// The worker's last step with a turn in the order known so far; 0: there is none.
  step_number last_step(rank worker) const { return last_steps_[worker.value]; }
  void join(rank worker) { joined_[worker.value] = true; }
  void arrive(const push_gradient& x) { arrived_[x.header.id.worker.value] = x; }
  /// Notes that the worker sends nothing more, so that its turns without a gradient hold up no others.
  void forget(rank worker) { gone_[worker.value] = true; }

  /// A turn, with its gradient if it is the turn of one that was not lost.
  struct ready {
    order_entry turn;
    std::optional<push_gradient> gradient;
  };
  /// Takes the next turn from the queue if it is ready. A turn that ends a policy is left to take_switch().
  std::optional<ready> next();

  /// The number of the worker's gradients whose turn has not come: 0 or 1.
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
  std::vector<step_number> last_steps_;               ///< by rank
};

} // namespace mailgrad
