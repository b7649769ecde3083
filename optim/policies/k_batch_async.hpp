#pragma once

#include <mailgrad/optim/policies/counted_batch.hpp>

namespace mailgrad {

/// One update from the mean of any K gradients, however stale they are and whichever workers sent them; no
/// worker waits.
///
/// Mean staleness of N busy workers (N - 1) / K.
/// Source  Dutta, Joshi, Ghosh, Dube & Nagpurkar, "Slow and Stale Gradients Can Win the Race", AISTATS 2018,
///         arXiv:1803.01113 (K-batch-async SGD); before it Zhang, Gupta, Lian & Liu, IJCAI 2016,
///         arXiv:1511.05950 (n-softsync, K = N / n).
class k_batch_async_policy final : public counted_batch_policy {
public:
  static constexpr std::string_view policy_name = "k-batch-async";

  using counted_batch_policy::counted_batch_policy;

  std::string_view name() const noexcept override { return policy_name; }
  decision judge(const gradient_stamp&) override { return take(); }
};

} // namespace mailgrad
