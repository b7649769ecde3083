#pragma once

#include <mailgrad/optim/identity.hpp>

#include <string>
#include <vector>

namespace mailgrad {

/// Coordinator to shard: take the gradients of each worker up to `steps` (by rank), then begin `policy`. The
/// shard answers with `policy_switched`.
struct switch_policy {
  policy_epoch epoch;
  std::string policy;
  std::vector<step_number> steps;
  std::vector<std::uint8_t> present;              ///< by rank; 0: takes no part in the new policy
  std::vector<incarnation_number> incarnations{}; ///< by rank, of those present; empty: all are 0
};

} // namespace mailgrad
