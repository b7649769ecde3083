#pragma once

#include <mailgrad/actors/run/coordinator.hpp>
#include <mailgrad/actors/run/recorder.hpp>
#include <mailgrad/engine/account/recording_account.hpp>
#include <mailgrad/engine/account/time_source.hpp>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace mailgrad {

/// What a run tells its recorder of itself.
struct recorded_run {
  std::shared_ptr<const time_source> time;
  /// The bytes that its other files need, asked on the thread of the recorder if the recording ends early;
  /// empty: none.
  std::function<std::uint64_t()> room{};
};

/// The recorder of a run.
///
/// Threads  account(): any; the rest: the one that owns the run.
class run_recorder {
public:
  /// `before`: what the run that goes on has recorded before its checkpoint; null: it begins.
  ///
  /// Errors  as create_recording() and continue_recording().
  run_recorder(caf::actor_system& system, const std::string& path, const recording_header& header,
               const recording* before, recorded_run run);

  const caf::actor& actor() const noexcept { return actor_; }
  /// Writes another header, as recording_writer::begin_again() does, before any other actor knows the
  /// recorder.
  void begin_again(const recording_header& header) {
    if (const auto file = file_.lock()) file->begin_again(header);
  }

  /// Completes the file, once; blocks until it is written.
  void finish(const caf::actor& feeder, const run_outcome& outcome, const training_report& report) {
    begin_to_finish(feeder, outcome, report);
    wait_until_finished();
  }
  /// The two halves of it, for who lets the recorder go on in between.
  void begin_to_finish(const caf::actor& feeder, const run_outcome& outcome, const training_report& report);
  void wait_until_finished();

  /// What has become of the recording so far, of a run that began then.
  recording_account account(instant begun) const;
  /// Why the file could not be written, in one line; empty if it was, or is not whole yet.
  std::string failure(instant begun) const;

private:
  /// What the thread of the recorder tells, and the end of the run.
  struct told {
    std::mutex mutex; ///< guards the members below
    recording_account account{};
    std::optional<instant> ended_early{};
  };

  const std::shared_ptr<told> told_ = std::make_shared<told>();
  std::weak_ptr<recording_writer> file_; ///< the recorder's
  caf::actor actor_;
  std::future<std::string> written_;
  std::string failure_; ///< of its end
};

/// The last entry of a recording, from what the run reports.
recording_end end_of(const run_outcome& outcome, const training_report& report);

} // namespace mailgrad
