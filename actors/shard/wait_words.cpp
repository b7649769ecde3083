#include <mailgrad/actors/shard/wait_words.hpp>

#include <mailgrad/actors/protocol/listed.hpp>

#include <string>

namespace mailgrad {

namespace {

std::string name_of(std::uint32_t shard) { return "shard " + std::to_string(shard); }

} // namespace

std::vector<std::uint32_t> awaited_before(const switch_policy& next, std::span<const worker_slot> workers) {
  std::vector<std::uint32_t> awaited;
  for (std::uint32_t r = 0; r < workers.size(); ++r) {
    if (!next.present[r] || workers[r].left) continue;
    if (!workers[r].device || workers[r].account.last_step < next.steps[r]) awaited.push_back(r);
  }
  return awaited;
}

/// A shard that follows may have all gradients, and lack the word of the first.
wait_named wait_for_switch(std::uint32_t shard, const switch_policy& next, instant asked,
                           std::span<const worker_slot> workers) {
  const std::vector<std::uint32_t> awaited = awaited_before(next, workers);
  return {name_of(shard) + " switches to " + next.policy + " when it has the last gradient of " +
              (awaited.empty() ? "shard 0's order" : listed("worker", awaited)),
          asked.count()};
}

std::vector<wait_named> waits_of_workers(std::uint32_t shard, std::string_view policy,
                                         std::span<const worker_slot> workers) {
  std::vector<std::uint32_t> awaited;
  for (std::uint32_t r = 0; r < workers.size(); ++r)
    if (workers[r].in_policy && !workers[r].left && !workers[r].waits_since) awaited.push_back(r);
  std::vector<wait_named> waits;
  for (std::uint32_t r = 0; r < workers.size(); ++r) {
    const worker_slot& worker = workers[r];
    if (!worker.waits_since) continue;
    std::string what = name_of(shard) + " holds worker " + std::to_string(r) + " after step " +
                       std::to_string(worker.waiting_step) + ", ";
    what.append(policy).append(" policy, until ");
    what.append(awaited.empty() ? "its turn comes" : "it hears from " + listed("worker", awaited));
    waits.push_back({what, worker.waits_since->count()});
  }
  return waits;
}

} // namespace mailgrad
