#pragma once

#include <mailgrad/optim/policies/counted_batch.hpp>

namespace mailgrad {

/// Gradients wait in a queue. As soon as it holds more than Q, an update is made from the mean of the B that
/// came first. No worker waits. When all workers have left, the rest is applied, B at a time.
///
/// Mean staleness of P busy workers (P + Q - B) / B, whatever the law of their times: at an update P - 1
/// gradients are being computed and Q + 1 - B stay in the queue, and each of them ages by one version. With
/// Q = B - 1 it would be k-batch-async.
/// Source  the queue between the producers of samples and the trainer of asynchronous reinforcement learning,
///         such as Fu et al., AReaL, 2025, arXiv:2505.24298; the mean by Little's law.
class queue_policy final : public counted_batch_policy {
public:
  static constexpr std::string_view policy_name = "queue";

  queue_policy(std::uint64_t b, std::uint64_t q) : counted_batch_policy(q + 1), b_(b), q_(q) {}
  std::string_view name() const noexcept override { return policy_name; }
  std::size_t takes_first() const noexcept override { return b_; }
  std::size_t queue_length() const noexcept override { return q_; }
  decision judge(const gradient_stamp&) override { return take(); }
  void batch_applied() override { give(b_); }

private:
  std::size_t b_, q_;
};

} // namespace mailgrad
