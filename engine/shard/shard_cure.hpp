#pragma once

#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/optim/cures/cure.hpp>

#include <memory>
#include <span>
#include <vector>

namespace mailgrad {

/// Applies a cure at one shard: it replaces stale gradients by compensated ones, and sends predicted weights.
/// It keeps the weights that each worker read, if the cure needs them.
///
/// A cure that compensates costs one pass over the shard for each gradient. A cure that needs the weights
/// read costs a snapshot for each worker.
class shard_cure {
public:
  /// `what` is null if the run has no cure; gradients are then applied as they are.
  shard_cure(std::unique_ptr<cure> what, std::shared_ptr<shard> weights, std::uint32_t workers);
  /// The weights that `worker` computes its next gradient from.
  snapshot weights_for(rank worker);
  /// The weights that `worker` was last sent; empty unless the cure needs them.
  const snapshot& read_by(rank worker) const { return read_[worker.value]; }
  /// Notes that `worker` sends no more gradients.
  void leave(rank worker);
  /// Whether the gradients of a batch are summed; if not, their mean is taken.
  bool adds_up() const { return cure_ && cure_->adds_up(); }
  /// Whether an exchange pulls the worker to the weights that its gradient was applied to, which the shard
  /// then sends.
  bool draws_workers() const { return cure_ && cure_->pull(); }
  /// The factor on the learning rate of a gradient with this gap; in a batch, on the gradient itself.
  double factor(std::uint64_t gap) const { return cure_ ? cure_->factor(gap) : 1; }
  /// The contribution that the shard applies for the gradient of `x`, which was computed from `read`. Both a
  /// compensated gradient and an unchanged one are scaled by the scale of `x`.
  contribution applied(const push_gradient& x, const snapshot& read);
  /// Notes that `worker` has these weights, as if they had been sent to it just now.
  void has(rank worker, const snapshot& values);
  /// Writes or reads the state of the cure, without the weights that workers have.
  void keep(archive& a);

private:
  std::unique_ptr<cure> cure_;
  std::shared_ptr<shard> weights_;
  std::span<const float> velocity_; ///< of the optimiser, if it has one
  object_pool<memory> blocks_;      ///< for predicted weights and compensated gradients
  std::vector<snapshot> read_;      ///< by rank: the weights that the worker was last sent
};

} // namespace mailgrad
