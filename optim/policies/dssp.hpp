#pragma once

#include <mailgrad/optim/policies/clocks.hpp>

#include <limits>

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
  void join(rank worker) override {
    clocks_.join(worker);
    if (rhythms_.size() <= worker.value) rhythms_.resize(worker.value + 1);
    rhythms_[worker.value] = {};
  }
  void leave(rank worker) override { clocks_.leave(worker); }
  decision judge(const gradient_stamp& g) override {
    if (!clocks_.present(g.worker)) return {verdict::discard, "not awaited"};
    clocks_.tick(g.worker);
    rhythm& r = rhythms_[g.worker.value];
    if (r.last != 0) r.interval = g.arrived - r.last;
    r.last = g.arrived;
    const std::uint64_t clock = clocks_.of(g.worker);
    const bool asks = clocks_.lead(g.worker) > lo_ && clocks_.is_fastest(g.worker);
    if (asks && clock > r.allowed) r.allowed = clock + extra_steps(g.worker);
    return {verdict::apply};
  }
  bool batch_complete() const override { return false; }
  void batch_applied() override {}
  /// The extra steps are counted from the gradient that exceeded lo: 0 means that the worker waits.
  bool may_start(rank worker) const override {
    if (!clocks_.present(worker)) return false;
    const std::uint64_t lead = clocks_.lead(worker);
    if (lead <= lo_) return true;
    return lead <= hi_ && clocks_.of(worker) < rhythms_[worker.value].allowed;
  }
  /// Times are those of the clock of the run that is kept. After a resume, the first interval of a worker is
  /// between two clocks, and only its choice within the bounds may be a poor one.
  void keep(archive& a) override {
    a.version(1);
    a.field("workers", clocks_);
    a.field("rhythms", rhythms_);
    rhythms_.resize(std::max(rhythms_.size(), clocks_.size()));
  }

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

  /// r in 0 .. hi - lo for which the worker's r-th gradient from now comes nearest to one of the slowest's.
  std::uint64_t extra_steps(rank worker) const {
    const rhythm& fast = rhythms_[worker.value];
    const rhythm& slow = rhythms_[slowest().value];
    if (fast.interval <= 0 || slow.interval <= 0) return 0; // no interval is known yet
    std::uint64_t best = 0;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    constexpr std::uint64_t most_ahead = 1000; // a worker's pace is not steady for longer
    const std::uint64_t most = std::min(hi_ - lo_, most_ahead);
    for (std::uint64_t r = 0; r <= most; ++r) {
      const std::int64_t stop = fast.last + static_cast<std::int64_t>(r) * fast.interval;
      const std::int64_t nearest = (stop - slow.last + slow.interval / 2) / slow.interval;
      const std::int64_t catch_up = slow.last + std::max<std::int64_t>(nearest, 1) * slow.interval;
      const std::int64_t apart = catch_up > stop ? catch_up - stop : stop - catch_up;
      if (apart >= least) continue;
      least = apart;
      best = r;
    }
    return best;
  }
  rank slowest() const {
    std::uint32_t r = 0;
    while (!clocks_.present({r}) || clocks_.of({r}) != *clocks_.slowest()) ++r;
    return {r};
  }

  std::uint64_t lo_;
  std::uint64_t hi_;
  worker_clocks clocks_;
  std::vector<rhythm> rhythms_; ///< by rank
};

} // namespace mailgrad
