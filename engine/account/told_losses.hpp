#pragma once

#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstdint>
#include <vector>

namespace mailgrad {

/// The last losses that workers have told of while they trained. They take the place of a report that will
/// not come, because its worker was lost.
class told_losses {
public:
  explicit told_losses(std::uint32_t workers) : all_(workers) {}

  /// So many steps of a worker since the last notice, with the sum of the losses of their samples. Each of
  /// them counts with the mean, since only the sum is known. Of a worker that there is not, nothing is taken.
  void take(rank worker, std::uint64_t steps, std::uint64_t samples, double loss_sum);
  /// Puts what was told of a worker into its report; leaves that if nothing was.
  void give(worker_report& known) const;

private:
  struct told {
    loss_tail tail;
    float last = 0;
  };
  std::vector<told> all_; ///< by rank
};

} // namespace mailgrad
