#pragma once

#include <mailgrad/actors/run/coordinator.hpp>
#include <mailgrad/actors/run/recorder.hpp>

#include <cstdint>
#include <functional>
#include <future>
#include <string>

namespace mailgrad {

/// What a run hears and says if its recording ends early, on the thread of the recorder.
struct early_end_calls {
  std::function<void(const recording_account&)> on_early_end; ///< called once, before finish() returns
  std::function<std::uint64_t()> room;                        ///< bytes that its other files need
};

/// The recorder of a run, for the thread that owns the run.
class run_recorder {
public:
  /// `before`: what the run that goes on has recorded before its checkpoint; null: it begins.
  ///
  /// Errors  as create_recording() and continue_recording().
  run_recorder(caf::actor_system& system, const std::string& path, const recording_header& header,
               const recording* before = nullptr, early_end_calls early_end = {});

  const caf::actor& actor() const noexcept { return actor_; }

  /// Completes the file, once; blocks until it is written.
  void finish(const caf::actor& feeder, const run_outcome& outcome, const training_report& report);

  /// Why the file could not be written; empty if it was.
  const std::string& failure() const noexcept { return failure_; }

private:
  caf::actor actor_;
  std::future<std::string> written_;
  std::string failure_;
};

/// The last entry of a recording, from what the run reports.
recording_end end_of(const run_outcome& outcome, const training_report& report);

} // namespace mailgrad
