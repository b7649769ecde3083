#pragma once

#include <mailgrad/engine/shard/gradient_sum.hpp>
#include <mailgrad/engine/shard/kept_gradient.hpp>
#include <mailgrad/engine/shard/shard.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad {

/// The gradients that wait at a shard until it applies them in one update.
///
/// The first gradient of a worker is kept as it is. When the same worker sends another, both are added up and
/// released. A batch thus takes the memory of one gradient for each worker, however many gradients it has.
/// Where the shard has tables on a card, all gradients are kept as they are.
///
/// The update adds the gradients in the order of ranks, and those of one rank in the order of its steps. If
/// each worker sends one, the order of arrival does not change the bits.
/// Threads one caller at a time.
class gradient_batch {
public:
  /// Turns a gradient into a contribution to an update, with the cure and the factor `share`. It is called
  /// once for each gradient.
  using counting = std::function<contribution(const waiting_gradient& g, float share)>;
  /// The factor on each gradient of a worker.
  using sharing = std::function<float(rank)>;
  /// Takes the contributions of an update, one call for each gradient. `what` is null for a gradient that is
  /// part of a sum in another call.
  using taking = std::function<void(const gradient_header& x, const contribution* what)>;

  gradient_batch(std::shared_ptr<shard> weights, std::uint32_t workers);

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  std::uint64_t samples() const noexcept { return samples_; } ///< of all its gradients
  /// The number of gradients of `worker`.
  std::uint64_t of(rank worker) const;
  /// The number of workers that have gradients here.
  std::size_t workers() const noexcept { return ranks_.size(); }

  void add(waiting_gradient g, const counting& count);
  /// Gives all gradients to `take`, each scaled by the share of its worker, and empties the batch. The sums
  /// it gave stay valid until the next add().
  ///
  /// Errors  those of require_one_sum().
  void hand_over(const sharing& share_of, const counting& count, const taking& take);

  /// Writes or reads the gradients that wait. When they are read, they are gradients of `run`.
  void keep(archive& a, run_id run);

private:
  struct of_worker {
    std::optional<waiting_gradient> alone; ///< the only gradient, or the first
    std::vector<waiting_gradient> further; ///< where none are added up
    std::vector<gradient_header> summed;   ///< the gradients in `sum`
    std::unique_ptr<gradient_sum> sum;
  };

  std::vector<gradient_header> headers() const;
  void keep(archive& a, of_worker& w, run_id run);
  void keep_further(archive& a, run_id run);
  void add_up(of_worker& w, const waiting_gradient& g, const counting& count);

  std::shared_ptr<shard> weights_;
  std::vector<of_worker> workers_;   ///< by rank
  std::vector<std::uint32_t> ranks_; ///< of the workers with a gradient; in no order
  std::size_t size_ = 0;
  std::uint64_t samples_ = 0;
  bool has_sums_ = false; ///< some gradient is part of a sum
};

} // namespace mailgrad
