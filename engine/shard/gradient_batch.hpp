#pragma once

#include <mailgrad/engine/shard/gradient_sum.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/shard/shard.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad {

/// A gradient that waits for its update, and the weights it was computed from, if a cure asks for them.
struct waiting_gradient {
  push_gradient what;
  std::shared_ptr<const block> read;
};

/// The gradients that wait at a shard for the update which they make together.
///
/// The first gradient of a worker waits as it came. Once the same worker sends another, both are added up and
/// let go, so that a batch takes the memory of one gradient for each worker, however many gradients it has.
///
/// Ranks are added in their order, and the gradients of a rank in the order of its steps: where each worker
/// sends one, the order of arrival does not show in the bits.
/// Threads one caller at a time.
class gradient_batch {
public:
  /// What a gradient counts with: `share` of a mean, and whatever it is treated with. Called once for each
  /// gradient.
  using counting = std::function<contribution(const waiting_gradient& g, float share)>;
  /// Takes what an update is made of; no contribution for a gradient that a sum before it contains.
  using taking = std::function<void(const push_gradient& x, const contribution* what)>;

  gradient_batch(std::shared_ptr<const shard> weights, std::uint32_t workers);

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  /// Gradients of this worker.
  std::uint64_t of(rank worker) const;

  void add(waiting_gradient g, const counting& count);
  /// Hands all of them over; each counts with `share`. The batch is empty then, and its sums may be used
  /// until the next add().
  void hand_over(float share, const counting& count, const taking& take);

private:
  struct of_worker {
    std::optional<waiting_gradient> alone;
    std::vector<push_gradient> summed; ///< without their values
    std::unique_ptr<gradient_sum> sum; ///< of those
  };

  void add_up(of_worker& w, const waiting_gradient& g, const counting& count);

  std::shared_ptr<const shard> weights_;
  std::vector<of_worker> workers_; ///< by rank
  std::size_t size_ = 0;
};

} // namespace mailgrad
