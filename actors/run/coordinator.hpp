#pragma once

#include <mailgrad/actors/run/book_keeper.hpp>
#include <mailgrad/actors/run/checkpointer.hpp>
#include <mailgrad/actors/run/policy_switcher.hpp>
#include <mailgrad/engine/record/recorded_incarnations.hpp>

namespace mailgrad {

struct coordinator_options {
  std::uint32_t workers = 1;
  std::vector<caf::actor> shards;
  caf::actor feeder;
  bool feeder_traced = false;                  ///< the feeder is asked for its timeline
  reported_timelines timelines{instant{0}, 0}; ///< what actors of other processes tell of theirs
  std::vector<scheduled_policy> policies{{0, {"async", 1}}}; ///< the first policy, and those to switch to
  std::optional<auto_options> automatic{}; ///< auto_rule asks for further switches, by what `tracker` sees
  caf::actor tracker;                      ///< needed if the run is automatic
  std::shared_ptr<const time_source> time = std::make_shared<machine_time>();
  std::function<void(run_outcome)> on_end;         ///< called once, by the coordinator; must not block
  std::function<void(const wait_reason&)> on_wait; ///< called for each wait that an actor names
  /// Called when the run has failed or diverges, before any worker hears of it; must not block.
  std::function<void(const std::string& why)> on_failure{};
  caf::actor observer{};                       ///< gets each switch that is done; may be null
  std::shared_ptr<const recording> replayed{}; ///< the run to repeat, with its switches
  caf::actor recorder{};                       ///< gets the switches; null in a run that is not recorded
  checkpointer_options checkpoints{};          ///< how checkpoints are taken, if at all
  std::optional<kept_schedule> resumed{};      ///< of a checkpoint, to go on from
  std::uint64_t steps_before = 0;              ///< trained by workers that do not go on from it
  std::vector<worker_report> books{};          ///< of the workers that do, by rank
  std::vector<bool> lost_before{};             ///< by rank: an incarnation of the worker was lost
  /// Called when a checkpoint is written or has failed; must not block.
  std::function<void(const checkpoint_account&)> on_checkpoint{};
  bool shards_tell_books = true;  ///< false for parameter actors of the user's own
  book_keeper::teller on_books{}; ///< called with the books so far when they are asked for; must not block
  std::uint32_t slots = 0;        ///< ranks that may take part; 0: as many as workers
  /// Whether workers may join late and come back, and what a lost one had not trained is dealt again. The
  /// shards and the feeder must answer for that.
  bool elastic = false;
  /// Whether a run that loses a worker has failed, because the others wait for it in a sum.
  bool needs_all = false;
  /// Whether workers wait at shards for their turns in a sum, so that these are told who may stand still.
  bool shares_credit = false;
  std::uint64_t local_steps = 0; ///< that a worker takes for one gradient; 0: one
  /// How long a run without a worker waits for one while batches are left; 0: it ends at once; max(): for
  /// ever.
  instant waits_for_workers{0};
  divergence_watch divergence{}; ///< of a run that ends if its loss grows to nonsense
  caf::actor joining_workers{};  ///< brings those of a replay that joined late in the recorded run

  std::uint32_t ranks() const { return std::max(workers, slots); }
};

/// Brings a run to its end. It waits until every worker has reported or died, asks the shards for their
/// reports, and tells the outcome. In an elastic run it gives slots to workers that come later or come back.
///
/// Guarantees  on_end is called once, also when workers, shards or the feeder die. No actor waits for a dead
///             one. An incarnation takes part only when all is known of the one before it, and not while
///             the policy switches or a checkpoint is collected.
/// Never       takes part in a step: a dealt batch is the permit to compute. Its policy_switcher switches
///             policies.
///
///     running --stop, divergence, failure--> stopping --last worker accounted for--> collecting --> ended
///      |  ^ \--------------------- last worker accounted for -------------------------/  ^
///      |  +--a worker joins--+                                                           |
///      \--last one gone, batches left--> waiting for workers --it has waited so long-----/
class coordinator : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.coordinator";

  coordinator(caf::event_based_actor* self, coordinator_options options);
  caf::behavior make_behavior();

private:
  using ending = run_outcome::ending;
  /// The connection between a worker and a shard has ended.
  struct parting {
    worker_left worker;
    caf::actor shard;
  };

  caf::behavior running();
  caf::message_handler losses_and_failures();
  caf::message_handler switches_and_ends();
  caf::message_handler comings_and_goings();
  caf::message_handler what_is_left();
  void take(const worker_joined& x);
  void give_slots();
  void refuse_newcomers() {
    for (const worker_joined& x : std::exchange(newcomers_, {})) send(x.device, give_up{});
  }
  void note_trained(const trained_reported& heard);
  void on_share_ended(const share_ended& x);
  void on_wait_over(const wait_over& x);
  /// In a replay of a run that diverged, who came then comes again.
  bool lets_in() const {
    const bool goes_on = completes() || options_.replayed;
    return options_.elastic && !collecting_ && !abandoned_ && goes_on;
  }
  void bring_next();
  bool may_end();
  bool waits_for_a_worker();
  run_phase phase() const;
  std::string format_nobody_left() const;
  void tell_waits();
  std::optional<wait_reason> wait_for_a_worker() const;
  std::optional<wait_reason> wait_for_the_end() const;
  /// Nothing has stopped it so far.
  bool completes() const { return outcome_.how == ending::completed; }
  void hear(const caf::actor& device) { slots_.hear(device, options_.time->now()); }
  void judge_loss(const worker_progress& x);
  bool asks_shards_of_lost() const { return options_.elastic && !options_.needs_all; }
  void forget_what_nobody_knows(worker_report& lost) const;
  void on_lost(const worker_lost& x);
  void on_parted(parting x);
  /// A sum that lacks the gradient of a lost worker is never whole, and must not look so.
  void pass_on(const parting& x) {
    if (options_.needs_all && outcome_.lost[x.worker.worker.value]) return;
    send(x.shard, x.worker);
  }
  void on_shard_lost(const shard_lost& x);
  bool joins_lost(const shard_lost& x);
  /// Workers that wait for weights that will not come are told so; they report and end.
  void abandon(const std::string& why) {
    if (collecting_) return;
    stop(ending::failed, why);
    send_home();
    collect_if_all_accounted(); // if it waits for a worker
  }
  void send_home();
  void on_switched(const policy_switched& x);
  void on_report(const shard_report& x);
  void account_for(const worker_report& report, bool lost = false,
                   std::shared_ptr<saved_fields> in_block = nullptr);
  caf::message_handler checkpoints();
  caf::message_handler books();
  void go_on_with_checkpoints();
  /// In a replay, a switch also waits for those who had joined before it.
  void hold_switches() {
    switcher_.hold_back(checkpointer_.is_collecting()               ? "a checkpoint"
                        : to_come_.any_due(switcher_.epoch().value) ? "a worker that had come before it"
                                                                    : "");
  }
  void on_failed(const worker_failed& x);
  /// Whether a checkpoint that is due because of a failure is still to be written.
  bool keeps_end_of_failed() const {
    return kept_before_failure_ &&
           (checkpointer_.last() == *kept_before_failure_ || checkpointer_.is_collecting());
  }
  /// The first reason counts. Steps that have begun are finished, and their gradients are taken.
  void end_as(ending how, std::string why) {
    outcome_.how = how;
    outcome_.why = std::move(why);
    if (how != ending::stopped && options_.on_failure) options_.on_failure(outcome_.why);
  }
  void stop(ending how, std::string why);
  void collect_if_all_accounted();
  /// Asks the first shard first. When it has answered, the other shards know everything that it judged.
  void ask_for_books() {
    const bool all = options_.shards.empty() || reported_[0];
    for (std::size_t i = 0; i < (all ? reported_.size() : 1); ++i)
      if (!reported_[i]) ask_for_books_of(options_.shards[i]);
    end_if_all_reported();
  }
  /// A batch that no worker is left to fill is closed first, unless it has a sum with the gradient of a lost
  /// worker, which is never whole.
  void ask_for_books_of(const caf::actor& shard) {
    for (std::uint32_t r = 0; r < slots_.used(); ++r)
      if (!options_.needs_all || !outcome_.lost[r]) send(shard, worker_left{{r}, slots_.incarnation_of({r})});
    send(shard, report_shard{});
  }
  void end_if_all_reported();

  coordinator_options options_;
  run_outcome outcome_;
  slot_table slots_;
  std::deque<worker_joined> newcomers_; ///< workers that wait for a slot
  recorded_slots to_come_;              ///< in a replay
  instant brought_at_{0};               ///< when the last of them was asked for
  std::vector<parting> parted_;         ///< of workers that are not accounted for yet
  lost_shares shares_;
  reported_losses losses_;
  std::vector<bool> reported_; ///< by shard: its report is here, or it is lost
  shard_lost first_lost_;      ///< of the shards below, which are lost for one reason
  std::vector<std::uint32_t> lost_together_;
  std::string last_lost_;                ///< a worker, and the text of the exception that ended it
  bool abandoned_ = false;               ///< a worker that joins now is told to give up
  bool anybody_went_early_ = false;      ///< lost, or of its own will
  bool counting_ = false;                ///< the feeder is asked how many batches are left
  std::optional<std::uint64_t> undealt_; ///< its answer, until a worker joins
  std::uint64_t waits_ = 0;              ///< for a worker that were begun
  bool expects_nobody_ = false;          ///< the owner knows that no worker comes any more
  std::optional<instant> waits_since_;   ///< set while the run has no worker and waits for one
  bool collecting_ = false;
  instant collects_since_{0};
  policy_switcher switcher_;
  checkpointer checkpointer_;
  book_keeper books_;
  std::optional<stop_training> stop_when_kept_; ///< the run stops when a last checkpoint is collected
  /// The last checkpoint before a device failed, if the run ends for that and can go on from there.
  std::optional<std::uint64_t> kept_before_failure_;
  auto_rule rule_;
  std::size_t switches_seen_ = 0; ///< by the rule, which ignores a window with a switch in it
};

} // namespace mailgrad
