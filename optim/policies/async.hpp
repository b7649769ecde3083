#pragma once

#include <mailgrad/optim/policies/policy.hpp>

namespace mailgrad {

/// Fully asynchronous: every gradient is applied as it comes, and its worker starts again at once.
/// Source  Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012 (Downpour SGD with
///         n_fetch = n_push = 1).
class async_policy final : public policy {
public:
  static constexpr std::string_view policy_name = "async";
  std::string_view name() const noexcept override { return policy_name; }
  void join(rank) override {}
  void leave(rank) override {}
  decision judge(const gradient_stamp&) override { return {verdict::apply}; }
  bool batch_complete() const override { return false; }
  void batch_applied() override {}
  bool may_start(rank) const override { return true; }
  void keep(archive& a) override { a.version(1); }
};

/// Lock-free: the replicas of a process write into one shared block (tensor/hogwild_store.hpp) without asking
/// anybody, so there is nothing to decide: this class is a name.
/// Source  Niu, Recht, Re & Wright, "Hogwild!", NIPS 2011, arXiv:1106.5730.
class hogwild_policy final {
public:
  static constexpr std::string_view policy_name = "hogwild";
};

} // namespace mailgrad
