#pragma once

#include <mailgrad/optim/policies/counted_batch.hpp>

namespace mailgrad {

/// One update from the mean of the first K fresh gradients; a fast worker may send several of them. Staleness
/// 0.
///
/// Source  Dutta, Joshi, Ghosh, Dube & Nagpurkar, "Slow and Stale Gradients Can Win the Race", AISTATS 2018,
///         arXiv:1803.01113 (K-batch-sync SGD).
class k_batch_sync_policy final : public fresh_batch_policy {
public:
  static constexpr std::string_view policy_name = "k-batch-sync";

  using fresh_batch_policy::fresh_batch_policy;

  std::string_view name() const noexcept override { return policy_name; }
};

} // namespace mailgrad
