#pragma once

#include <mailgrad/engine/account/running_stat.hpp>
#include <mailgrad/engine/model/gradient.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad {

/// The cosine of the angle between two gradients of the same mini-batch, over all their values.
///
/// Exactly 1 if they are the same. Nothing if one is 0 or holds a value that is no finite number, or if they
/// list different rows of a table.
std::optional<double> cosine(const gradient& a, const gradient& b);

/// A gradient that was pushed, and the weights that each shard applied it to: when all of these are there,
/// its batch can be computed once more, at weights that are not stale.
///
/// Threads one caller at a time.
class gradient_comparison {
public:
  explicit gradient_comparison(std::size_t shards) : weights_(shards) {}

  /// Forgets the last, if its weights never came.
  void begin(std::uint64_t step, std::shared_ptr<const gradient> stale);
  /// The weights that `shard` applied the gradient of `step` to.
  void take(std::uint32_t shard, std::uint64_t step, std::shared_ptr<const block> weights);
  void forget();

  /// Whether a gradient and the weights of all shards are there.
  bool ready() const noexcept { return stale_ && missing_ == 0; }
  const gradient& stale() const noexcept { return *stale_; }
  const std::shared_ptr<const block>& weights(std::uint32_t shard) const { return weights_[shard]; }

  /// Notes how far `fresh` points where the stale one did, and forgets both.
  void compare(const gradient& fresh);

  const running_stat& cosines() const noexcept { return cosines_; }

private:
  std::uint64_t step_ = 0;
  std::shared_ptr<const gradient> stale_;
  std::vector<std::shared_ptr<const block>> weights_; ///< by shard
  std::size_t missing_ = 0;
  running_stat cosines_;
};

} // namespace mailgrad
