#include <mailgrad/actors/protocol/order_log.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

namespace mailgrad {
using messaging::send;

/// The first entry of a run is sent at once, since nothing was sent before it.
void order_log::flush_each_second(instant now) {
  if (now - told_at_ < std::chrono::seconds{1}) return;
  told_at_ = now;
  flush();
}

void order_log::mark(std::uint64_t checkpoint, shard_index by) {
  if (!recorder_) return;
  flush();
  send(self_, recorder_, recording_marked{checkpoint, by});
}

void order_log::flush() {
  if (notes_.turns.empty() && notes_.deals.empty()) return;
  order_noted told{notes_.shard, {}, {}};
  told.turns.swap(notes_.turns);
  told.deals.swap(notes_.deals);
  send(self_, recorder_, std::move(told));
}

} // namespace mailgrad
