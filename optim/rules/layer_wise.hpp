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

/// LAMB: Adam with a learning rate for each variable, in proportion to the length of its weights over that of
/// its step. For large batches of transformers, where LARS does poorly.
///
///     m = beta1 m + (1 - beta1) g,           m_hat = m / (1 - beta1^t)
///     v = beta2 v + (1 - beta2) g^2,         v_hat = v / (1 - beta2^t)
///     r = m_hat / (sqrt(v_hat) + epsilon) + lambda w
///     w = w - rate (|w| / |r|) r
///
/// with lambda = weight decay.
/// Source  You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020,
///         arXiv:1904.00962, Algorithm 2 with phi(z) = z. Differs: the ratio is 1 if |w| or |r| is 0, as in
///         the authors' program.
/// Shapes  states "mean", "mean_square": float32[shard].
class lamb_rule final : public variable_rule {
public:
  lamb_rule(const lamb_options& options, std::size_t shard_size, std::span<const shard_variable> variables);

  void update(const variable_step& work) override;
  std::vector<optimizer_state> state() override;

private:
  lamb_options options_;
  std::vector<std::size_t> offsets_; ///< by variable
  block mean_;
  block mean_square_;
  block step_; ///< r of the largest variable
};

} // namespace mailgrad
