#pragma once

#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstdint>
#include <vector>

namespace mailgrad {

/// What workers have told of while they trained: the last losses, how far they had come, and how long they
/// had waited. It takes the place of a report that will not come, because its worker was lost.
class told_losses {
public:
  explicit told_losses(std::uint32_t workers) : all_(workers) {}

  /// Another incarnation of the worker begins, and counts anew.
  void begin(rank worker);

  /// So many steps of a worker since the last notice, with the sum of the losses of their samples. Each of
  /// them counts with the mean, since only the sum is known. Of a worker that there is not, nothing is taken.
  void take(rank worker, std::uint64_t steps, std::uint64_t samples, double loss_sum);
  /// What has come to the sums of a worker since its last notice.
  void add(rank worker, const worker_sums& more);
  struct amount {
    std::uint64_t steps = 0;
    std::uint64_t samples = 0;
  };
  /// Of the present or the last incarnation. It may have done a little more than it had told.
  amount done_by(rank worker) const { return all_[worker.value].done; }
  /// Puts what was told of a lost worker into its report, which has the sums of earlier incarnations. Losses
  /// stay as they are if none were told. `copy` is the report as the worker last copied it, and may be newer.
  void give(worker_report& known, const worker_report& copy) const;

private:
  struct told {
    loss_tail tail;
    float last = 0;
    amount done{};
    worker_sums sums{};
  };
  std::vector<told> all_; ///< by rank
};

} // namespace mailgrad
