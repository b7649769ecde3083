#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/optim/identity.hpp>
#include <mailgrad/tensor/snapshot.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad {

/// The cosine of the angle between two gradients of the same mini-batch, over all their values.
///
/// It is exactly 1 if they are the same. There is none if a gradient is zero or holds a value that is not
/// finite, or if they list different rows of a table.
std::optional<double> cosine(const gradient& a, const gradient& b);
/// The same from the inner products of a with b, with itself, and of b with itself.
std::optional<double> cosine(double product, double squares_a, double squares_b);

/// Compares a pushed gradient with a fresh one of the same batch. It keeps the pushed gradient and collects
/// the weights that each shard applied it to. The worker then computes the fresh gradient at these weights.
///
/// Threads one caller at a time.
class gradient_comparison {
public:
  explicit gradient_comparison(std::size_t shards) : weights_(shards) {}

  /// Begins a comparison; the one before is dropped if its weights never came.
  void begin(step_number step, std::shared_ptr<const gradient> stale);
  /// Takes the weights that `shard` applied the gradient of `step` to. Those of another step are ignored.
  void take(shard_index shard, step_number step, snapshot weights);
  void forget();

  /// Whether a comparison has begun and the weights of all shards have come.
  bool ready() const noexcept { return stale_ && missing_ == 0; }
  const std::shared_ptr<const gradient>& stale() const noexcept { return stale_; }
  const snapshot& weights(shard_index shard) const { return weights_[shard.value]; }

  /// The step whose gradient is compared.
  step_number step() const noexcept { return step_; }

private:
  step_number step_;
  std::shared_ptr<const gradient> stale_;
  std::vector<snapshot> weights_; ///< by shard
  std::size_t missing_ = 0;
};

} // namespace mailgrad
