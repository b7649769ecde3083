#pragma once

#include <mailgrad/optim/policies/counted_batch.hpp>

namespace mailgrad {

/// One update from the mean of B fresh gradients, as fast as the workers can make them: of optimal time
/// complexity when B is about max(1, sigma^2 / epsilon), the noise of a gradient over the accuracy sought.
/// Staleness 0.
///
/// It differs from k-batch-sync in how B is chosen, not in what a shard does.
/// Source  Tyurin & Richtarik, "Optimal Time Complexities of Parallel Stochastic Optimization Methods Under a
///         Fixed Computation Model", NeurIPS 2023, arXiv:2305.12387.
class rennala_policy final : public fresh_batch_policy {
public:
  static constexpr std::string_view policy_name = "rennala";

  using fresh_batch_policy::fresh_batch_policy;

  std::string_view name() const noexcept override { return policy_name; }
};

} // namespace mailgrad
