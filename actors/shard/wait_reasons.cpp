#include <mailgrad/actors/shard/wait_reasons.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

namespace mailgrad {

namespace {

std::string name_of(shard_index shard) { return fmt::format("shard {}", shard.value); }

std::string named(std::span<const std::uint32_t> awaited, std::span<const worker_slot> workers, instant now) {
  return listed_with_last_words("worker", awaited, now, [&](std::uint32_t r) { return workers[r].heard_at; });
}

} // namespace

/// A shard that follows may have all gradients and still wait for the order.
wait_reason wait_for_switch(shard_index shard, const switch_policy& next, instant asked,
                            std::span<const worker_slot> workers, instant now) {
  const std::vector<std::uint32_t> awaited = awaited_before(next, workers);
  return {fmt::format("{} switches to {} when {}", name_of(shard), next.policy,
                      awaited.empty() ? "the order that it follows comes to that"
                                      : "it has the last gradient of " + named(awaited, workers, now)),
          (now - asked).count()};
}

std::string awaited_in_order(const gradient_order& order) {
  if (!order.is_followed()) return {};
  const order_entry* const entry = order.next_entry();
  if (entry == nullptr) return "shard 0 tells its turn";
  switch (entry->what) {
  case order_entry::kind::gradient:
  case order_entry::kind::missed:
    return fmt::format("it has the gradient of worker {}'s step {}, whose turn is first", entry->worker.value,
                       entry->step.value);
  case order_entry::kind::joined:
    return fmt::format("worker {} has joined here, whose turn is first", entry->worker.value);
  default:
    return "its turn comes";
  }
}

std::vector<wait_reason> waits_of_workers(shard_index shard, std::string_view policy,
                                          std::span<const worker_slot> workers, std::string_view in_order,
                                          instant now) {
  std::vector<std::uint32_t> awaited;
  for (std::uint32_t r = 0; r < workers.size(); ++r)
    if (const worker_slot& w = workers[r]; w.in_policy && !w.left && !w.owed && !w.waits_since)
      awaited.push_back(r);
  const std::string others =
      awaited.empty() ? "its turn comes" : "it hears from " + named(awaited, workers, now);
  std::vector<wait_reason> waits;
  for (std::uint32_t r = 0; r < workers.size(); ++r) {
    const worker_slot& worker = workers[r];
    const bool waits_for_order = worker.owed && !worker.waits_since && !in_order.empty();
    if (!worker.waits_since && !waits_for_order) continue;
    waits.push_back({fmt::format("{} holds worker {} after step {}, {} policy, until {}", name_of(shard), r,
                                 worker.waiting_step.value, policy, waits_for_order ? in_order : others),
                     (now - worker.waits_since.value_or(worker.heard_at.value_or(now))).count()});
  }
  return waits;
}

} // namespace mailgrad
