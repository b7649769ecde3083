#pragma once

#include <mailgrad/optim/policies/policy.hpp>

namespace mailgrad {

/// Asynchronous with a threshold: a gradient of delay below R is applied, an older one dropped, and its
/// worker starts again from the weights as they are. R = 1 takes only fresh gradients; with R beyond any
/// delay it is async.
///
/// The paper's form without stops: a step that has become too old is finished before it is dropped.
/// Source  Maranjyan, Tyurin & Richtarik, "Ringmaster ASGD: The First Asynchronous SGD with Optimal Time
///         Complexity", ICML 2025, arXiv:2501.16168.
class ringmaster_policy final : public policy {
public:
  static constexpr std::string_view policy_name = "ringmaster";
  explicit ringmaster_policy(std::uint64_t threshold) : threshold_(threshold) {}
  std::string_view name() const noexcept override { return policy_name; }
  bool shards_agree() const noexcept override { return true; }
  bool always_fresh() const noexcept override { return threshold_ == 1; }
  std::optional<std::uint64_t> most_stale() const noexcept override { return threshold_ - 1; }
  void join(rank) override {}
  void leave(rank) override {}
  decision judge(const gradient_stamp& g) override {
    if (g.version_now - g.version_read < threshold_) return {verdict::apply};
    return {verdict::discard, "too stale"};
  }
  bool batch_complete() const override { return false; }
  void batch_applied() override {}
  bool may_start(rank) const override { return true; }
  void keep(archive& a) override { a.version(1); }

private:
  std::uint64_t threshold_;
};

} // namespace mailgrad
