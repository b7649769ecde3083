#include <mailgrad/actors/shard/wait_words.hpp>

#include <mailgrad/actors/protocol/listed.hpp>

#include <fmt/format.h>

#include <string>

namespace mailgrad {

namespace {

std::string name_of(shard_index shard) { return fmt::format("shard {}", shard.value); }

std::string named(std::span<const std::uint32_t> awaited, std::span<const worker_slot> workers, instant now) {
  return listed_with_last_words("worker", awaited, now, [&](std::uint32_t r) { return workers[r].heard_at; });
}

} // namespace

std::vector<std::uint32_t> awaited_before(const switch_policy& next, std::span<const worker_slot> workers) {
  std::vector<std::uint32_t> awaited;
  for (std::uint32_t r = 0; r < workers.size(); ++r) {
    if (!next.present[r]) continue;
    const bool unheard_of = workers[r].empty || (!next.lives.empty() && workers[r].life < next.lives[r]);
    if (workers[r].left && !unheard_of) continue;
    if (unheard_of || !workers[r].device || workers[r].account.last_step < next.steps[r])
      awaited.push_back(r);
  }
  return awaited;
}

/// A shard that follows may have all gradients and still wait for the verdict of the first.
wait_named wait_for_switch(shard_index shard, const switch_policy& next, instant asked,
                           std::span<const worker_slot> workers, instant now) {
  const std::vector<std::uint32_t> awaited = awaited_before(next, workers);
  return {fmt::format("{} switches to {} when it has the last gradient of {}", name_of(shard), next.policy,
                      awaited.empty() ? "shard 0's order" : named(awaited, workers, now)),
          (now - asked).count()};
}

std::vector<wait_named> waits_of_workers(shard_index shard, std::string_view policy,
                                         std::span<const worker_slot> workers, instant now) {
  std::vector<std::uint32_t> awaited;
  for (std::uint32_t r = 0; r < workers.size(); ++r)
    if (workers[r].in_policy && !workers[r].left && !workers[r].waits_since) awaited.push_back(r);
  std::vector<wait_named> waits;
  for (std::uint32_t r = 0; r < workers.size(); ++r) {
    const worker_slot& worker = workers[r];
    if (!worker.waits_since) continue;
    waits.push_back(
        {fmt::format("{} holds worker {} after step {}, {} policy, until {}", name_of(shard), r,
                     worker.waiting_step.value, policy,
                     awaited.empty() ? "its turn comes" : "it hears from " + named(awaited, workers, now)),
         (now - *worker.waits_since).count()});
  }
  return waits;
}

} // namespace mailgrad
