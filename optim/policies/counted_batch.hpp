#pragma once

#include <mailgrad/optim/policies/policy.hpp>

#include <algorithm>
#include <set>
#include <vector>

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

} // namespace mailgrad
