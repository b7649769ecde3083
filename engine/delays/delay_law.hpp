#pragma once

#include <cstdint>

namespace mailgrad {

struct batch;

/// How long each step of one worker takes, which is prescribed for an experiment.
///
/// Threads one caller at a time; the laws of two workers share nothing that changes.
class delay_law {
public:
  /// No step takes longer, so that the times of a run can be added up: a draw of a heavy tail is cut here.
  static constexpr double longest = 1e7;

  virtual ~delay_law() = default;

  /// The seconds from the begin of a step to its end, 0 <= seconds <= longest. `step` is the worker's own
  /// count from 1, and `begins` the seconds since the run began. Neither may fall from call to call.
  virtual double seconds(std::uint64_t step, double begins) = 0;

  /// The same of a step that computes this batch, for laws by which time depends on the samples.
  virtual double seconds_on([[maybe_unused]] const batch& inputs, std::uint64_t step, double begins) {
    return seconds(step, begins);
  }
};

} // namespace mailgrad
