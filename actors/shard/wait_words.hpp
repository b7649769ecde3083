#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/shard/worker_slot.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

// Whom a shard waits for, and who waits for it. Participants by rank.

namespace mailgrad {

/// Those whose gradients of the old policy are not all taken, so that `next` cannot begin.
std::vector<std::uint32_t> awaited_before(const switch_policy& next, std::span<const worker_slot> workers);

/// "shard 0 switches to sync when it has the last gradient of worker 1"
wait_named wait_for_switch(std::uint32_t shard, const switch_policy& next, instant asked,
                           std::span<const worker_slot> workers);

/// "shard 0 holds worker 1 after step 17, sync policy, until it hears from worker 0", for each that is held.
std::vector<wait_named> waits_of_workers(std::uint32_t shard, std::string_view policy,
                                         std::span<const worker_slot> workers);

} // namespace mailgrad
