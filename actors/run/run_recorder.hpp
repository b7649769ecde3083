#pragma once

#include <mailgrad/actors/run/coordinator.hpp>
#include <mailgrad/engine/record/recording_file.hpp>

namespace mailgrad {

struct recorder_options {
  std::shared_ptr<recording_writer> file;             ///< the recorder owns it while it lives
  std::function<void(const std::string& why)> on_end; ///< called once; empty: it was written
  recording_cut before{}; ///< what the file of a run that goes on has; else only the number of shards
  /// Called once when a part cannot be written, with what became of the file; may be empty.
  std::function<void(const recording_account&)> on_early_end{};
  std::function<std::uint64_t()> room{}; ///< the bytes that other files of the run need then; empty: 0
};

/// Writes what shards and the feeder note into a recording. The file appears when it is complete. The
/// recorder blocks on the file, so it needs a thread of its own. If the disk is full, it gives the file up at
/// once and takes no more; the run goes on.
///
///     recording --end_recording--> waiting for the feeder's last --the same from it, or its death--> ended
///         \-------------------- end_recording that names no feeder ------------------------------------/
///
/// Its part in a checkpoint says how much of the recording lies before that. All of it is then on the disk.
/// Guarantees  on_end is called once, whichever other actor dies. A shard that marks what is not its turn yet
///             spoils no checkpoint but with its own entries.
class recorder : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.recorder";

  recorder(caf::event_based_actor* self, recorder_options options)
      : actor_part(self), options_(std::move(options)), so_far_(options_.before) {}
  caf::behavior make_behavior();

private:
  /// A checkpoint under way, and who has marked.
  struct cut_under_way {
    std::uint64_t number = 0;
    recording_cut at;
    std::vector<bool> shards;
    bool feeder = false;
    caf::actor coordinator{};
    bool told = true; ///< the coordinator has the part, or there is none yet

    bool whole() const;
  };

  /// The cut of that checkpoint; null if it is over, or cannot have begun. The next one begins when the
  /// present one is whole, and a shard may tell of it before the coordinator does.
  cut_under_way* cut_of(std::uint64_t number) {
    const bool is_next = number == cut_.number + 1 && cut_.told;
    if (is_next) cut_ = {number, so_far_, std::vector<bool>(so_far_.entries.size()), false, nullptr, false};
    return number == cut_.number && !cut_.told ? &cut_ : nullptr;
  }
  void on_marked(const recording_marked& x);
  void tell_if_marked();
  void give_up_if_failed() {
    if (given_up_ || !options_.file->failed()) return;
    given_up_ = true;
    const recording_account what = options_.file->give_up(options_.room ? options_.room() : 0);
    if (options_.on_early_end) options_.on_early_end(what);
  }
  void end(const recording_end& e);
  void end_with(const std::string& why) {
    options_.on_end(why);
    self_->quit();
  }

  recorder_options options_;
  recording_cut so_far_;
  cut_under_way cut_; ///< of the last checkpoint
  bool given_up_ = false;
};

/// What a run tells its recorder of itself.
struct recorded_run {
  std::shared_ptr<const time_source> time;
  /// The bytes that its other files need, asked on the thread of the recorder if the recording ends early;
  /// empty: none.
  std::function<std::uint64_t()> room{};
};

/// The recorder of a run.
/// Threads  account(): any; the rest: the one that owns the run.
class run_recorder {
public:
  /// `before`: what the run that goes on has recorded before its checkpoint; null: it begins.
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
  recording_account account(instant begun) const {
    const std::lock_guard held(told_->mutex);
    recording_account so_far = told_->account;
    if (told_->ended_early) so_far.seconds = in_seconds(*told_->ended_early - begun);
    return so_far;
  }
  /// Why the file could not be written, in one line; empty if it was, or is not whole yet.
  std::string failure(instant begun) const {
    const recording_account how = account(begun);
    const std::lock_guard held(told_->mutex);
    return told_->ended_early ? format_recording(how) : failure_;
  }

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
