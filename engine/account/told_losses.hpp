#pragma once

#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstdint>
#include <vector>

namespace mailgrad {

/// What workers have told of while they trained: the last losses, and how far they had come. It takes the
/// place of a report that will not come, because its worker was lost.
class told_losses {
public:
  explicit told_losses(std::uint32_t workers) : all_(workers) {}

  /// Another incarnation of the worker begins, and counts its steps anew.
  void begin(rank worker);

  /// So many steps of a worker since the last notice, with the sum of the losses of their samples. Each of
  /// them counts with the mean, since only the sum is known. Of a worker that there is not, nothing is taken.
  void take(rank worker, std::uint64_t steps, std::uint64_t samples, double loss_sum);
  struct amount {
    std::uint64_t steps = 0;
    std::uint64_t samples = 0;
  };
  /// Of the present or the last incarnation. It may have done a little more than it had told.
  amount done_by(rank worker) const { return all_[worker.value].done; }
  /// Puts what was told of a worker into its report; leaves that if nothing was.
  void give(worker_report& known) const;

private:
  struct told {
    loss_tail tail;
    float last = 0;
    amount done{};
  };
  std::vector<told> all_; ///< by rank
};

} // namespace mailgrad
