#pragma once

#include <mailgrad/engine/account/time_source.hpp>

#include <cstdint>

namespace mailgrad {

/// The progress of a run.
struct training_progress {
  std::uint64_t steps = 0;   ///< mini-batches trained, by all workers
  std::uint64_t before = 0;  ///< of these, in earlier processes of a run that was resumed
  std::uint64_t samples = 0; ///< in this process
  double loss = 0;           ///< mean over the steps since the last report
  double staleness_mean = 0; ///< version gap, over the run so far
  instant elapsed{0};
};

} // namespace mailgrad
