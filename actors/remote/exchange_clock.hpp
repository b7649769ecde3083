#pragma once

#include <mailgrad/engine/account/time_source.hpp>

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

namespace mailgrad::remote {

/// How long gradients and their answers are on the wire, both ways together, by shard:
///
///     (answer received - gradient sent) - (answer sent - gradient arrived)
///
/// Each difference is of one clock, so the clocks of the two machines need not agree, and the sum is exact.
/// How it is shared between the two ways cannot be known.
/// Threads any.
class exchange_clock {
public:
  explicit exchange_clock(std::size_t shards) : of_(shards) {}

  /// A gradient was sent, or has arrived.
  void begin(std::size_t shard, instant now) {
    const std::lock_guard lock(mutex_);
    of_[shard].since = now;
  }
  /// How long that was ago; none if there was no gradient since the last call.
  std::optional<instant> end(std::size_t shard, instant now) {
    const std::lock_guard lock(mutex_);
    std::optional<instant>& since = of_[shard].since;
    if (!since) return std::nullopt;
    const instant span = now - *since;
    since.reset();
    return span;
  }
  /// Notes the time on the wire of the last exchange.
  void note(std::size_t shard, instant on_wire) {
    const std::lock_guard lock(mutex_);
    of_[shard].last = on_wire;
  }
  /// Takes that time; each is taken once.
  std::optional<instant> take(std::size_t shard) {
    const std::lock_guard lock(mutex_);
    std::optional<instant> last = of_[shard].last;
    of_[shard].last.reset();
    return last;
  }

private:
  struct line {
    std::optional<instant> since, last;
  };

  std::mutex mutex_;
  std::vector<line> of_;
};

} // namespace mailgrad::remote
