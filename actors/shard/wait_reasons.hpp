#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/shard/gradient_order.hpp>
#include <mailgrad/engine/shard/worker_slots.hpp>

#include <cstdint>
#include <span>

// What a shard waits for, and which workers wait for the shard. `workers` is by rank.

namespace mailgrad {

/// "shard 0 switches to sync when it has the last gradient of worker 1 (heard 0.2 s ago)"
wait_reason wait_for_switch(shard_index shard, const switch_policy& next, instant asked,
                            std::span<const worker_slot> workers, instant now);

/// What the order of a shard that follows waits for: "shard 0 tells its turn", or "it has the gradient of
/// worker 2's step 7, whose turn is first". Empty if the shard follows none.
std::string awaited_in_order(const gradient_order& order);

/// "shard 0 holds worker 1 after step 17, sync policy, until it hears from worker 0 (heard 0.2 s ago)", for
/// each held worker. One whose gradient is here, or who has joined, and whose turn has not come waits for
/// `in_order`.
std::vector<wait_reason> waits_of_workers(shard_index shard, std::string_view policy,
                                          std::span<const worker_slot> workers, std::string_view in_order,
                                          instant now);

} // namespace mailgrad
