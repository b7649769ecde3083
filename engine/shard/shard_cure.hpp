#pragma once

#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/optim/cures/cure.hpp>

#include <memory>
#include <span>
#include <vector>

namespace mailgrad {

/// The cure of one shard at work: keeps what each worker read, if the cure asks for it, and puts what is
/// applied in the place of stale gradients.
///
/// A cure that compensates costs a snapshot for each worker and one pass over the shard for each gradient.
/// Threads one caller at a time.
class shard_cure {
public:
  /// Without a cure: gradients count as they are.
  shard_cure(std::unique_ptr<cure> what, std::shared_ptr<shard> weights, std::uint32_t workers);

  /// The weights for `worker` to compute its next gradient from.
  std::shared_ptr<const block> weights_for(rank worker);

  /// What `worker` was last sent; keep it with a gradient that is not applied at once. Null if no cure asks
  /// for it.
  std::shared_ptr<const block> read_by(rank worker) const { return read_[worker.value]; }

  /// Nothing more comes from `worker`.
  void leave(rank worker);

  /// Whether what is applied for the gradients of a batch counts in full; else their mean is taken.
  bool adds_up() const { return cure_ && cure_->adds_up(); }

  /// Whether a worker has to know which weights its gradient met.
  bool draws_workers() const { return cure_ && cure_->pull(); }

  /// What the learning rate, or the gradient itself in a batch, counts with.
  double factor(std::uint64_t gap) const { return cure_ ? cure_->factor(gap) : 1; }

  /// What is applied for the gradient of `x`, computed from `read`; counts with the scale of `x` in either
  /// case.
  contribution applied(const push_gradient& x, const std::shared_ptr<const block>& read);

private:
  std::unique_ptr<cure> cure_;
  std::shared_ptr<shard> weights_;
  std::span<const float> velocity_;                ///< of the optimiser, if it has one
  object_pool<block> blocks_;                      ///< for predictions and for what is applied
  std::vector<std::shared_ptr<const block>> read_; ///< by rank
};

} // namespace mailgrad
