#pragma once

#include <mailgrad/optim/rules/variable_rule.hpp>
#include <mailgrad/tensor/block.hpp>

namespace mailgrad {

/// LARS: momentum with a learning rate for each variable, in proportion to the length of its weights over
/// that of its gradient. For large batches, as many workers under sync make them.
///
///     lambda = eta |w| / (|g| + beta |w|)
///     v = m v + rate lambda (g + beta w)
///     w = w - v
///
/// with eta = trust, m = momentum, beta = weight decay.
/// Source  You, Gitman & Ginsburg, "Large batch training of convolutional networks", 2017, arXiv:1708.03888,
///         equation 6 and Algorithm 1. Differs: lambda = 1 if |w| or |g| is 0, as in the authors' program,
///         because a bias that begins at 0 would stay there.
/// Shapes  state "velocity": float32[shard].
class lars_rule final : public variable_rule {
public:
  lars_rule(const lars_options& options, std::size_t shard_size, std::span<const shard_variable> variables);

  void update(const variable_step& work) override;
  std::vector<optimizer_state> state() override;

private:
  lars_options options_;
  std::vector<std::size_t> offsets_; ///< by variable
  block velocity_;
};

} // namespace mailgrad
