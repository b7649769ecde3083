#pragma once

#include <mailgrad/engine/shard/gradient_queue.hpp>
#include <mailgrad/engine/shard/gradient_sum.hpp>
#include <mailgrad/engine/shard/shard.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace mailgrad {

/// The gradients that a shard keeps for all updates of a round, and beside them those of the next round.
///
/// A gradient is added to the sum of its worker at once, and released. So each of the two takes the memory of
/// one gradient for each worker that has sent any. A gradient counts at its first update, for which its
/// header waits.
/// Source  Maranjyan & Richtarik, Ringleader ASGD, ICLR 2026, arXiv:2509.22860: tables (G, b) and (G+, b+).
class gradient_table {
public:
  gradient_table(std::shared_ptr<shard> weights, std::uint32_t workers);
  /// Whether no gradient waits for its first update, in this round or in the next.
  bool nothing_waits() const noexcept { return !now_.waits && !next_.waits; }
  /// The gradients of `worker` that wait for it.
  std::uint64_t of(rank worker) const;
  /// Adds a gradient, which counts as `what`, to the present round or to the next one.
  void add(const push_gradient& x, const contribution& what) { add(now_, x, what); }
  void defer(const push_gradient& x, const contribution& what) { add(next_, x, what); }
  /// An update must be made, or the next round has one more, though the gradient itself is lost.
  void add_lost() { now_.waits = true; }
  void defer_lost() { next_.waits = true; }
  /// Forgets that such a gradient waits in the present round.
  void drop_lost() { now_.waits = false; }
  /// Whether a gradient itself waits, and not only the place of one that is lost.
  bool has_waiting() const;
  /// Calls `count` with each gradient of the present round that is in an update for the first time, by rank.
  void count_new(const std::function<void(const push_gradient&)>& count);
  /// The mean of each worker's mean in the present round, (1/n) sum_i G_i / b_i, as contributions to an
  /// update. They are valid until the next gradient is added.
  std::vector<contribution> means();
  /// Ends the present round. Returns at once if so many rounds are over.
  void begin_round(std::uint64_t rounds_over);
  /// Ends the present round if all that waits is of the next one.
  void skip_to_waiting();
  /// Forgets all gradients and rounds.
  void clear();
  /// Writes or reads the sums and the gradients that wait. When they are read, they are gradients of `run`.
  void keep(archive& a, run_id run);

private:
  struct of_worker {
    std::unique_ptr<gradient_sum> sum;
    std::uint64_t gradients = 0;      ///< in the sum
    std::vector<push_gradient> fresh; ///< those of them that are in no update yet, without their values
  };
  struct round {
    std::vector<of_worker> workers; ///< by rank; empty until there is a gradient
    bool waits = false;             ///< for an update, as a gradient or as the place of a lost one
  };

  void add(round& to, const push_gradient& x, const contribution& what);
  void turn_over();
  void keep(archive& a, round& of, run_id run);
  void keep(archive& a, of_worker& w, run_id run);

  std::shared_ptr<shard> weights_;
  std::uint32_t workers_;
  round now_, next_;
  std::uint64_t rounds_ = 0; ///< that are over
};

} // namespace mailgrad
