#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/account/time_source.hpp>

#include <cstdint>
#include <optional>

namespace mailgrad {

/// A worker as a shard sees it: whether it takes part, and since when it waits for weights, if it does.
struct worker_slot {
  caf::actor device;                  ///< null: it has not joined, or has left
  instant arrived{0};                 ///< its last gradient
  std::optional<instant> waits_since; ///< once that is judged
  std::uint64_t waiting_step = 0;
  bool merged = false; ///< its gradient lies in the pending batch
  bool left = false;
  bool in_policy = true; ///< the policy counts it among those who take part
  weights_met met;       ///< to be told with the next weights
  worker_account account;
};

} // namespace mailgrad
