#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace mailgrad::net {

/// What a worker has of the sums that all workers of a run make together, in rounds. It leaves when it is
/// destroyed: later rounds then go on without its numbers.
/// Guarantees  every worker of a round is told the same givers, and if it is one of them, the same sum.
/// Threads any, one caller at a time.
class all_reduce {
public:
  /// By worker: whether its numbers are in the sum.
  using givers = std::vector<bool>;
  /// Called once, on any thread; must not block.
  using on_sum = std::function<void(const givers&)>;

  virtual ~all_reduce() = default;

  /// Gives this worker's numbers to the next round, whose sum lies in their place when `done` is called. That
  /// takes until every other worker has given its own or has left. `keeps` holds their memory, which nobody
  /// else may use meanwhile. If what carries the numbers fails, `done` is not called.
  /// Errors  std::invalid_argument for another number of floats than it was made for.
  virtual void add(std::span<float> values, std::shared_ptr<const void> keeps, on_sum done) = 0;
};

} // namespace mailgrad::net
