#pragma once

#include <mailgrad/optim/policies/attendance.hpp>

namespace mailgrad {

/// Synchronous with backup workers: one update from the mean of the first N - b gradients of N workers. Those
/// of the b slowest come too late and are dropped, so b stragglers cost no time, and what only they have seen
/// is lost.
///
/// A worker that dies shrinks N; it does not use up one of the b. One that joins late is counted from the
/// next batch on, if one has begun. Staleness is 0.
/// Source  Chen, Pan, Monga, Bengio & Jozefowicz, "Revisiting Distributed Synchronous SGD", 2016,
///         arXiv:1604.00981; with K = N - b the K-sync SGD of Dutta et al., AISTATS 2018, arXiv:1803.01113.
class backup_policy final : public attended_policy {
public:
  static constexpr std::string_view policy_name = "backup";
  explicit backup_policy(std::size_t backups) : backups_(backups) {}
  std::string_view name() const noexcept override { return policy_name; }
  bool shards_agree() const noexcept override { return true; }
  bool always_fresh() const noexcept override { return true; }
  std::optional<std::uint64_t> most_stale() const noexcept override { return 0; }
  void join(rank worker) override { workers_.join_next_batch(worker); }
  decision judge(const gradient_stamp& g) override {
    if (workers_.awaited(g.worker) && g.version_read != g.version_now) return {verdict::discard, "late"};
    return attended_policy::judge(g);
  }
  bool batch_complete() const override {
    const std::size_t expected = workers_.expected();
    return workers_.arrived() >= (expected > backups_ ? expected - backups_ : 1);
  }

private:
  std::size_t backups_;
};

} // namespace mailgrad
