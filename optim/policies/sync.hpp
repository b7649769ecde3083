#pragma once

#include <mailgrad/optim/policies/attendance.hpp>

namespace mailgrad {

/// Barrier-synchronous: one update from the mean of one gradient of every worker; all wait for the slowest.
///
/// A worker that joins late is counted at once, so a batch that has begun waits for its gradient, too. It
/// must not wait for the next batch: shards do not agree here on which batch that is, and two newcomers could
/// then wait for each other at two shards.
/// Source  Valiant, "A Bridging Model for Parallel Computation", CACM 33(8), 1990; for SGD: Chen, Pan, Monga,
///         Bengio & Jozefowicz, "Revisiting Distributed Synchronous SGD", 2016, arXiv:1604.00981.
class sync_policy final : public attended_policy {
public:
  static constexpr std::string_view policy_name = "sync";
  std::string_view name() const noexcept override { return policy_name; }
  bool always_fresh() const noexcept override { return true; }
  bool deals_by_rank() const noexcept override { return true; }
  bool batch_complete() const override {
    return workers_.arrived() > 0 && workers_.arrived() == workers_.expected();
  }
  std::optional<rank> first_awaited() const override { return workers_.first_awaited(); }
};

} // namespace mailgrad
