#pragma once

#include <mailgrad/optim/policies/clocks.hpp>

namespace mailgrad {

/// Stale-synchronous with a bound that moves between lo and hi. Where the fastest worker is more than lo
/// steps ahead of the slowest, it gets as many steps more as let it stop when the slowest pushes, so that it
/// waits least. A worker that is not the fastest waits, as under ssp.
///
/// Both times are predicted from the last interval between two gradients of the worker.
/// Source  Zhao, An, Liu & Chen, "Dynamic Stale Synchronous Parallel Distributed Training for Deep Learning",
///         ICDCS 2019, arXiv:1908.11848, Algorithms 1 and 2, from a summary of them. Differs: a worker
///         that has used its extra steps waits for the slowest before it gets more, and no worker passes hi.
class dssp_policy final : public policy {
public:
  static constexpr std::string_view policy_name = "dssp";

  dssp_policy(std::uint64_t lo, std::uint64_t hi) : lo_(lo), hi_(hi) {}

  std::string_view name() const noexcept override { return policy_name; }
  void join(rank worker) override;
  void leave(rank worker) override { clocks_.leave(worker); }
  decision judge(const gradient_stamp& g) override;
  bool batch_complete() const override { return false; }
  void batch_applied() override {}
  bool may_start(rank worker) const override;
  /// Times are those of the clock of the run that is kept. After a resume, the first interval of a worker is
  /// between two clocks, and only its choice within the bounds may be a poor one.
  void keep(archive& a) override;

private:
  /// When a worker's gradients came, in nanoseconds.
  struct rhythm {
    std::int64_t last = 0;
    std::int64_t interval = 0; ///< between the last two; 0: not known yet
    std::uint64_t allowed = 0; ///< the clock up to which it may start steps beyond lo

    void keep(archive& a) {
      a.field("last_ns", last);
      a.field("interval_ns", interval);
      a.field("allowed", allowed);
    }
  };

  std::uint64_t extra_steps(rank worker) const;
  rank slowest() const;

  std::uint64_t lo_;
  std::uint64_t hi_;
  worker_clocks clocks_;
  std::vector<rhythm> rhythms_; ///< by rank
};

} // namespace mailgrad
