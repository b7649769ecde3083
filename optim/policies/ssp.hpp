#pragma once

#include <mailgrad/optim/policies/clocks.hpp>

namespace mailgrad {

/// Stale-synchronous: gradients are applied as they come, and a worker may start a step while it is at most s
/// steps ahead of the slowest. So what it reads holds all updates of every worker's steps up to its own less
/// s. With s = 0 all workers keep in step, as at a barrier.
/// Source  Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS
///         2013.
class ssp_policy final : public policy {
public:
  static constexpr std::string_view policy_name = "ssp";
  explicit ssp_policy(std::uint64_t bound) : bound_(bound) {}
  std::string_view name() const noexcept override { return policy_name; }
  void join(rank worker) override { clocks_.join(worker); }
  void leave(rank worker) override { clocks_.leave(worker); }
  decision judge(const gradient_stamp& g) override {
    if (!clocks_.present(g.worker)) return {verdict::discard, "not awaited"};
    clocks_.tick(g.worker);
    return {verdict::apply};
  }
  bool batch_complete() const override { return false; }
  void batch_applied() override {}
  bool may_start(rank worker) const override {
    return clocks_.present(worker) && clocks_.lead(worker) <= bound_;
  }
  void keep(archive& a) override {
    a.version(1);
    a.field("workers", clocks_);
  }

private:
  std::uint64_t bound_;
  worker_clocks clocks_;
};

} // namespace mailgrad
