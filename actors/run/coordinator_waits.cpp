#include <mailgrad/actors/run/coordinator.hpp>

#include <mailgrad/actors/protocol/listed.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/run/remaining_batches.hpp>

#include <fmt/format.h>

#include <string>
#include <vector>

// The part of the coordinator that says what a run waits for.

namespace mailgrad {
using messaging::send;

/// Shards and workers tell of their own waits, also workers that have no seat yet.
void coordinator::tell_waits() {
  for (const auto& wait : {switcher_.name_wait(seats_), checkpointer_.name_wait(seats_), shares_.name_wait(),
                           wait_for_a_worker(), wait_for_the_end()})
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
  const std::string bound = options_.waits_for_workers < instant::max()
                                ? fmt::format(", {:.0f} s at most", in_seconds(options_.waits_for_workers))
                                : "";
  return wait_named{
      fmt::format("the run waits for a worker to train {}{}", remaining_batches(*undealt_), bound),
      (now - *waits_since_).count()};
}

/// The first shard is asked for its report before all others. A checkpoint that is being collected names its
/// own wait, and so do the batches of lost workers.
std::optional<wait_named> coordinator::wait_for_the_end() const {
  if (!collecting_ || checkpointer_.is_collecting()) return std::nullopt;
  std::vector<std::uint32_t> awaited;
  for (std::uint32_t s = 0; s < reported_.size() && (s == 0 || reported_[0]); ++s)
    if (!reported_[s]) awaited.push_back(s);
  if (awaited.empty() && !checkpointer_.is_writing() && shares_.awaits_feeder()) return std::nullopt;
  const std::string what = checkpointer_.is_writing() ? "the last checkpoint to be written"
                           : !awaited.empty()         ? "the report of " + listed("shard", awaited)
                                                      : "the timeline of the feeder";
  return wait_named{"the end of the run waits for " + what, (options_.time->now() - collects_since_).count()};
}

} // namespace mailgrad
