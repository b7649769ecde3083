#pragma once

#include <mailgrad/engine/shard/gradient_queue.hpp>
#include <mailgrad/engine/shard/gradient_sum.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/shard/shard.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace mailgrad {

/// Checks that the gradients of an update, in the order of their workers, are one sum and all that it is made
/// of, if any of them is part of a sum.
/// Errors  std::runtime_error in one line that names worker and step: another carrier, another step or
///         another number of gradients than the first one says, or no gradient of the carrier.
void require_one_sum(std::span<const gradient_header> of_update);

/// The gradients that wait at a shard until it applies them in one update.
///
/// The first gradient of a worker is kept as it is. When the same worker sends another, both are added up and
/// released. A batch thus takes the memory of one gradient for each worker, however many gradients it has.
/// Where the shard has tables on a GPU, all gradients are kept as they are.
///
/// The update adds the gradients in the order of ranks, and those of one rank in the order of its steps. If
/// each worker sends one, the order of arrival does not change the bits. A policy that says whom it awaits
/// first lets those before it have their places in the sum. Where one of these is of a worker that shares
/// credit with others, all up to it are added up and released as soon as there are two, which changes no bit
/// either. A lower rank that joins after that is added behind them.
class gradient_batch {
public:
  /// Turns a gradient into a contribution to an update, with the cure. It is called once for each gradient.
  using counting = std::function<contribution(const waiting_gradient& g)>;
  /// The factor on each gradient of a worker, beside that on the whole sum; 1 for those that have places.
  using sharing = std::function<float(rank)>;
  /// Takes the contributions of an update, one call for each gradient. `what` is null if another call has it
  /// in its sum.
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
  /// The batch gets nothing more of ranks below `next`: what it has of them gets the next places in the sum.
  void give_places(rank next, const counting& count);
  /// Lets the credit go of gradients that are added up, or will be with their batch alone. Until then it is
  /// held, so that whoever gives credit can first be told whom the policy awaits now.
  void release_credit() { spent_.clear(); }
  /// Gives all gradients to `take`, each scaled by the share of its worker, and empties the batch. The sums
  /// it gave stay valid until the next add().
  /// Errors  those of require_one_sum().
  void hand_over(const sharing& share_of, const counting& count, const taking& take);
  /// Writes or reads the gradients that wait. When they are read, they are gradients of `run`.
  void keep(archive& a, run_id run);

private:
  struct of_worker {
    std::optional<waiting_gradient> alone; ///< the only gradient, or the first
    bool is_placed = false;                ///< this has a place
    bool is_in_first = false;              ///< one before that is added up with those of other workers
    std::vector<waiting_gradient> further; ///< where none are added up
    std::vector<gradient_header> summed;   ///< the gradients in `sum`
    std::unique_ptr<gradient_sum> sum;
  };

  /// The first of the sum, that have places.
  struct beginning {
    std::vector<rank> places{};            ///< whose gradients are not added up yet, in this order
    std::size_t credits = 0;               ///< of these
    std::vector<gradient_header> summed{}; ///< of those that are
    std::unique_ptr<gradient_sum> sum{};   ///< of these
    std::size_t searched = 0;              ///< no rank below has a gradient without a place
  };

  std::vector<gradient_header> headers() const;
  bool adds_up_next(std::size_t place) const;
  void add_up_placed(const counting& count);
  void spend(waiting_gradient& g);
  void keep(archive& a, of_worker& w, run_id run);
  void keep_beginning(archive& a, run_id run);
  void keep_further(archive& a, run_id run);
  void add_up(of_worker& w, const waiting_gradient& g, const counting& count);

  std::shared_ptr<shard> weights_;
  std::vector<of_worker> workers_;   ///< by rank
  std::vector<std::uint32_t> ranks_; ///< of the workers with a gradient; in no order
  beginning first_;
  std::vector<std::shared_ptr<const void>> spent_; ///< credit that is of no more use here
  std::size_t size_ = 0;
  std::uint64_t samples_ = 0;
  bool has_sums_ = false; ///< some gradient is part of a sum
};

} // namespace mailgrad
