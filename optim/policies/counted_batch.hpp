#pragma once

#include <mailgrad/optim/policies/policy.hpp>

#include <algorithm>
#include <set>

namespace mailgrad {

/// The common part of policies that make one update from a given number of gradients of any workers. No
/// worker waits: it goes on at once with the present weights. When all workers have left, an incomplete batch
/// is applied.
class counted_batch_policy : public policy {
public:
  explicit counted_batch_policy(std::size_t size) : size_(size) {}
  bool shards_agree() const noexcept override { return true; }
  bool makes_batches() const noexcept override { return true; }
  void join(rank worker) override { present_.insert(worker); }
  void leave(rank worker) override { present_.erase(worker); }
  bool batch_complete() const override { return count_ >= size_ || (count_ > 0 && present_.empty()); }
  void batch_applied() override { count_ = 0; }
  bool may_start(rank worker) const override { return present_.contains(worker); }
  void keep(archive& a) override {
    a.version(1);
    a.field("count", count_);
    std::vector<rank> present(present_.begin(), present_.end());
    a.field("present", present);
    present_ = {present.begin(), present.end()};
  }

protected:
  decision take() {
    ++count_;
    return {verdict::merge};
  }
  /// An update has taken at most so many, and the others still wait.
  void give(std::size_t taken) { count_ -= std::min(count_, taken); }

private:
  std::size_t size_;
  std::size_t count_ = 0; ///< gradients that wait
  std::set<rank> present_;
};

/// A counted batch of gradients that were all computed from the present weights. A gradient that was begun
/// before the last update is dropped on arrival, because a device cannot be interrupted earlier.
class fresh_batch_policy : public counted_batch_policy {
public:
  using counted_batch_policy::counted_batch_policy;
  bool always_fresh() const noexcept override { return true; }
  std::optional<std::uint64_t> most_stale() const noexcept override { return 0; }
  decision judge(const gradient_stamp& g) override {
    if (g.version_read != g.version_now) return {verdict::discard, "late"};
    return take();
  }
};

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

/// One update from the mean of the first K fresh gradients; a fast worker may send several of them. Staleness
/// 0.
/// Source  Dutta, Joshi, Ghosh, Dube & Nagpurkar, "Slow and Stale Gradients Can Win the Race", AISTATS 2018,
///         arXiv:1803.01113 (K-batch-sync SGD).
class k_batch_sync_policy final : public fresh_batch_policy {
public:
  static constexpr std::string_view policy_name = "k-batch-sync";
  using fresh_batch_policy::fresh_batch_policy;
  std::string_view name() const noexcept override { return policy_name; }
};

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
