#pragma once

#include <mailgrad/actors/run/slot_table.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>

namespace mailgrad {

struct checkpointer_options {
  caf::actor writer{};             ///< null: the run takes no checkpoints
  checkpoint_card card{};          ///< steps and time: of workers that no longer exist, and of earlier runs
  std::uint64_t every_batches = 0; ///< 0: not by batches
  std::int64_t every = 0;          ///< ns; 0: not by time
  bool traced = false;             ///< notes when each checkpoint was collected and written
  std::optional<judged_tests> tests{}; ///< of earlier processes; nothing: the run has no need to keep them
  caf::actor recorder{};               ///< has a part in each checkpoint; null: the run is not recorded
  std::shared_ptr<const hogwild_store> block{}; ///< that workers share under hogwild; null: no policy is
  std::uint64_t named = 0; ///< steps in the name of the file that it goes on from in its folder; 0: none
};

/// What a run does at present, as far as its checkpoints are concerned.
enum class run_phase : std::uint8_t {
  trains,
  switches,         ///< its policy, or is about to
  waits_for_worker, ///< nobody is left to train, and the run does not end for that
};

/// The coordinator's part in a checkpoint: it begins one when that is due, collects the parts of all actors,
/// and gives them to the writer. checkpoint_messages.hpp draws the protocol.
///
/// Guarantees  one checkpoint is collected at a time. What is asked for meanwhile is taken once, afterwards.
///             None begins before all workers have joined, or while the policy switches. In a run that waits
///             for a worker it asks only the shards and the feeder.
///
///     idle --due--> collecting --all parts--> writing --written--> idle
///
/// The checkpoint of the end begins when the first worker is about to end, also while another one is written.
/// If a worker trains on behind it, there is one more when no worker is left.
/// Under hogwild it holds the workers while it collects: it copies the block when all of them stand still, or
/// the shards do, and then lets them go on.
class checkpointer : messaging::actor_part {
public:
  using schedule_now = std::function<kept_schedule()>;

  /// Ranks from `workers` to `slots` - 1 have not joined yet.
  checkpointer(caf::event_based_actor* self, checkpointer_options options, std::uint32_t workers,
               std::uint32_t slots, std::vector<caf::actor> shards, caf::actor feeder,
               std::shared_ptr<const time_source> time, schedule_now schedule);

  void begin() {
    if (!active()) return;
    begun_ = time_->now();
    send(feeder_, watch_checkpoints{options_.every_batches, options_.every});
  }
  bool active() const noexcept { return options_.writer != nullptr; } ///< the run takes checkpoints

  void on_joined(rank joined, const caf::actor& device) {
    worker& w = workers_[joined.value];
    w.device = device;
    w.gone = false;
    if (collecting_) ask(w);
  }
  /// A worker has ended or died. Its last report is its part, unless it is lost. `in_block`: what is to be
  /// kept of a worker of hogwild that has finished; or null.
  void on_gone(const worker_report& report, bool lost, std::shared_ptr<saved_fields> in_block = nullptr);
  /// A worker is lost, and the shards are asked what it did. No checkpoint is written before they have told.
  void await_count(rank lost) { workers_[lost.value].awaited = true; }
  /// They have told it.
  void on_counted(const worker_report& known);
  void on_part(const checkpoint_part& x);
  /// One will not come. The checkpoint has failed when all others are here, and no other one begins before.
  void on_failed(const checkpoint_failed& x) {
    if (!collecting_ || x.number != number_ || !parts_.emplace(x.name, nullptr).second) return;
    failure_ = x.why;
    let_go_on_if_copied();
    write_if_whole();
  }
  void on_written(const checkpoint_written& x);
  /// A worker is about to end, and waits until it is told to mark.
  void on_end_of(rank ending) {
    workers_[ending.value].at_end = true;
    at_end_.push_back(ending);
  }
  /// The run has not completed, so no checkpoint of its end begins. Workers that wait for one end.
  void give_up_end() {
    end_given_up_ = true;
    let_end(end_);
  }

  /// What the tests have shown, for the next checkpoint. It may tell of a test behind the cut: the run that
  /// goes on does not make that one again, and so each test counts once.
  void keep(const judged_tests& so_far) { options_.tests = so_far; }

  bool can_take() const noexcept { return active() && !given_up_; }
  /// A checkpoint is asked for. It begins as soon as it can.
  void request() { due_ = due_ || can_take(); }
  /// A checkpoint is due. It is skipped if an earlier one still waits to be begun.
  void on_due() {
    if (due_) ++account_.skipped;
    request();
  }
  /// Begins what was asked for, unless the policy switches.
  void begin_if_due(run_phase now);
  /// Whether one that was asked for begins as soon as the one before is written.
  bool is_next() const noexcept { return due_ && writing_; }
  /// What it waits for, in words; nothing if no checkpoint is under way.
  std::optional<wait_reason> blocked_on(const slot_table& slots) const;
  /// Begins the last checkpoint, when no worker is left. `done` is called when it is written, or at once if
  /// the run takes none.
  void take_last(std::function<void()> done);
  /// Whether `done` is still to be called. A run without shards must not end before.
  bool has_last_to_take() const noexcept { return when_done_ != nullptr; }
  /// A shard or the feeder is lost, so no checkpoint can be whole any more.
  void give_up();

  /// Whether parts are still to come: no switch of policy may begin before.
  bool is_collecting() const noexcept { return collecting_; }
  bool is_writing() const noexcept { return writing_; }
  std::uint64_t last() const noexcept { return number_; } ///< that was begun
  const checkpoint_account& account() const noexcept { return account_; }
  /// When each was collected and written, if that is noted. Call it at the end of the run: one whose parts
  /// are still to come is given up.
  std::vector<checkpoint_times> end_timeline() {
    note_given_up();
    return std::move(timeline_);
  }

private:
  struct worker {
    caf::actor device;
    bool gone = false;
    bool lost = false;
    bool counted = true;    ///< `last` has all that it did
    bool awaited = false;   ///< the shards are asked what it did
    bool was_lost = false;  ///< or an incarnation of it before
    bool absent = false;    ///< from the present checkpoint, since it was lost before its marker
    bool at_end = false;    ///< it is about to end, and waits to be told to mark
    std::uint64_t told = 0; ///< steps that it had trained at its last marker
    worker_report last{};
    std::shared_ptr<saved_fields> in_block{}; ///< what is to be kept of its updates, since it has finished
    std::shared_ptr<saved_fields> part{};     ///< of all checkpoints after its end
  };

  static std::string part_of_worker(std::uint32_t rank) { return fmt::format("worker {}", rank); }
  std::optional<std::uint32_t> worker_of_part(std::string_view name) const;
  bool all_here() const {
    return std::ranges::all_of(workers_, [](const worker& w) { return w.device || w.gone; });
  }
  void begin_end(run_phase now);
  /// Answers those that wait.
  void let_end(std::uint64_t number) {
    for (const rank r : std::exchange(at_end_, {}))
      if (worker& w = workers_[r.value]; std::exchange(w.at_end, false)) send(w.device, mark_at_end{number});
  }
  /// Whether nothing was trained behind the checkpoint of the end.
  bool end_is_kept() const {
    std::uint64_t trained = options_.card.steps;
    for (const worker& w : workers_) trained += w.last.steps;
    return end_steps_ == trained && std::ranges::none_of(workers_, &worker::lost);
  }
  /// Whether the present policy lets workers write into the block.
  bool in_block() const {
    if (!options_.block) return false;
    const policy_spec present(schedule_().policy, static_cast<std::uint32_t>(workers_.size()));
    return !present.traits().needs_shards;
  }
  void ask(const worker& w) const {
    if (holding_)
      send(w.device, hold_for_checkpoint{number_});
    else
      send(w.device, take_checkpoint{number_});
  }
  void collect();
  void ask_shards_and_feeder() {
    for (const caf::actor& shard : shards_) send(shard, take_checkpoint{number_});
    send(feeder_, take_checkpoint{number_});
  }
  /// The part of a worker that has ended: where it was then.
  void take_part_of(std::uint32_t r) {
    if (!parts_.contains(part_of_worker(r))) take_part_of(r, workers_[r].last);
  }
  void take_part_of(std::uint32_t worker, worker_report report);
  std::shared_ptr<saved_fields> part_of_ended(worker& w, worker_report report) const;
  void drop_part_of(std::uint32_t r) {
    if (parts_.erase(part_of_worker(r)) > 0) steps_ -= workers_[r].last.steps;
  }
  void leave_out_behind_markers();
  /// Those of so many that have not sent their parts. `whom`: "worker" or "shard".
  std::vector<std::uint32_t> lacking(const char* whom, std::size_t count) const {
    return numbers_where(count,
                         [&](std::uint32_t i) { return !parts_.contains(fmt::format("{} {}", whom, i)); });
  }
  void let_go_on_if_copied();
  void let_go_on();
  void take_block() {
    parts_[block_part] =
        keep_block(*options_.block, shards_.empty() ? block_weights::all : block_weights::in_shards);
  }
  void take_own_part();
  void write_if_whole();
  void end_failed();
  void note_begin() {
    if (options_.traced) timeline_.push_back({number_, asked_});
  }
  void note_whole() {
    if (!options_.traced) return;
    timeline_.back().collected = time_->now();
    timeline_.back().steps = steps_;
  }
  void note_end(const checkpoint_written& x);
  void note_given_up() {
    if (options_.traced && collecting_) timeline_.back().collected = timeline_.back().ended = time_->now();
  }

  checkpointer_options options_;
  std::vector<worker> workers_; ///< by rank
  std::vector<rank> at_end_;    ///< those that wait to be told to mark
  std::vector<caf::actor> shards_;
  caf::actor feeder_;
  std::shared_ptr<const time_source> time_;
  schedule_now schedule_;
  instant begun_{0};

  std::uint64_t number_ = 0; ///< of the last checkpoint that was begun
  bool due_ = false;
  bool collecting_ = false;
  bool holding_ = false; ///< the workers, until the block is copied
  bool writing_ = false;
  bool given_up_ = false;
  bool end_given_up_ = false;
  std::uint64_t end_ = 0;                  ///< the number of the checkpoint of the end; 0: not begun
  std::optional<std::uint64_t> end_steps_; ///< that it has, unless it could not be written
  bool last_begun_ = false;                ///< the checkpoint of the end
  instant asked_{0};                       ///< when the parts were asked for
  std::uint64_t steps_ = 0; ///< trained by the workers whose parts are here, and before the run was resumed
  std::uint64_t named_ = 0; ///< steps in the name of the last file, which never falls
  checkpoint_parts parts_;
  std::string failure_; ///< why the present checkpoint cannot be whole; empty: it can
  std::function<void()> when_done_;
  checkpoint_account account_;
  std::vector<checkpoint_times> timeline_; ///< the last one may be under way
};

struct checkpoint_writer_options {
  std::string folder;
  std::size_t keep = 3; ///< checkpoints that stay when another is written
  /// What writes one, as write_checkpoint_file() does.
  std::function<std::uint64_t(const std::filesystem::path&, const checkpoint_parts&)> write =
      write_checkpoint_file;
};

/// Writes checkpoints into a folder, each as a file that appears when all of it is on the disk, and then
/// removes older ones. It blocks on the disk, so it needs a thread of its own.
///
/// Guarantees  every write_checkpoint is answered. A failure leaves the older checkpoints as they were, but
///             on a full disk the oldest goes for a newer one, as long as a whole one stays (make_room()).
class checkpoint_writer : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.checkpoint-writer";

  checkpoint_writer(caf::event_based_actor* self, checkpoint_writer_options options)
      : actor_part(self), options_(std::move(options)) {}
  caf::behavior make_behavior() {
    return {
        on([this](const write_checkpoint& x) { return write(x); }),
        on([this](const give_up&) { self_->quit(); }),
    };
  }

private:
  checkpoint_written write(const write_checkpoint& x);
  void write(const write_checkpoint& x, checkpoint_written& written);

  checkpoint_writer_options options_;
  bool room_helps_ = true; ///< the last time that room was made on a full disk, there was enough
};

} // namespace mailgrad
