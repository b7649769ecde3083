#include <mailgrad/actors/run/coordinator.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <fmt/format.h>

// The part of the coordinator that says what a run waits for.

namespace mailgrad {
using messaging::send;

/// Shards and workers tell of their own waits, also workers that have no seat yet.
void coordinator::tell_waits() {
  for (const auto& wait : {switcher_.name_wait(seats_), checkpointer_.name_wait(seats_), shares_.name_wait(),
                           wait_for_a_worker()})
    if (wait && options_.on_wait) options_.on_wait(*wait);
  for (const caf::actor& shard : options_.shards) send(self_, shard, name_waits{});
  for (std::uint32_t r = 0; r < seats_.used(); ++r)
    if (seats_.device({r})) send(self_, seats_.device({r}), name_waits{});
  for (const worker_joined& x : newcomers_) send(self_, x.device, name_waits{});
}

std::optional<wait_named> coordinator::wait_for_a_worker() const {
  const instant now = options_.time->now();
  if (const auto next = to_come_.brought())
    return wait_named{fmt::format("the replay waits for worker {} as incarnation {}", next->first.value,
                                  next->second.value),
                      (now - brought_at_).count()};
  if (!waits_since_) return std::nullopt;
  return wait_named{fmt::format("the run waits for a worker to train the last {} batches", *undealt_),
                    (now - *waits_since_).count()};
}

} // namespace mailgrad
