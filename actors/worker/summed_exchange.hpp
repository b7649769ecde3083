#pragma once

#include <mailgrad/actors/worker/shard_lines.hpp>
#include <mailgrad/net/all_reduce.hpp>

#include <memory>
#include <optional>

namespace mailgrad {

/// Adds each gradient up with those of all other workers, and then pushes it to every shard. The worker of
/// the lowest rank that has one in the sum carries it; the others push a gradient without values that says
/// where theirs is. So each shard judges, counts and answers every gradient, and gets the values of one.
///
/// A worker that ends leaves the sums, in which no other then waits for it. The wait for the sum counts as
/// one at a barrier.
///
///     deliver() --> summing --gradients_summed--> take_sum(): pushed
///
/// Errors   deliver(): std::runtime_error for a gradient that lacks some weights, or has tables.
/// Threads  those of the device actor that owns it.
class summed_exchange final : public exchange {
public:
  summed_exchange(const worker_context& of, shard_lines& lines, std::shared_ptr<net::all_reduce> sums);

  void receive(const shard_weights& x) override;
  void deliver(computed_gradient g) override;
  bool is_summing() const override { return summing_.has_value(); }
  void take_sum(const gradients_summed& x) override;
  void leave() override { sums_.reset(); }

private:
  worker_context of_;
  shard_lines& lines_;
  std::shared_ptr<net::all_reduce> sums_;
  std::optional<computed_gradient> summing_; ///< the sum of it is under way
};

} // namespace mailgrad
