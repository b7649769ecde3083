#pragma once

#include <mailgrad/optim/policies/policy.hpp>

namespace mailgrad {

/// Barrier-synchronous: one update from the mean of one gradient of every worker; all wait for the slowest.
///
/// Source  Valiant, "A Bridging Model for Parallel Computation", CACM 33(8), 1990; for SGD: Chen, Pan, Monga,
///         Bengio & Jozefowicz, "Revisiting Distributed Synchronous SGD", 2016, arXiv:1604.00981.
class sync_policy final : public policy {
public:
  static constexpr std::string_view policy_name = "sync";

  std::string_view name() const noexcept override { return policy_name; }
  void join(rank worker) override;
  void leave(rank worker) override;
  decision judge(const gradient_stamp& g) override;
  bool batch_complete() const override;
  void batch_applied() override;
  bool may_start(rank worker) const override;

private:
  enum class standing : std::uint8_t {
    absent,
    computing,
    arrived, ///< its gradient lies in the batch
    leaving, ///< the same, and there will be no further one
  };
  std::size_t count(standing s) const;

  std::vector<standing> workers_; ///< by rank
};

} // namespace mailgrad
