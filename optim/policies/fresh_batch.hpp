#pragma once

#include <mailgrad/optim/policies/counted_batch.hpp>

namespace mailgrad {

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
