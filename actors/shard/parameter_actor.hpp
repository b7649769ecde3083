#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/shard/batch_window.hpp>
#include <mailgrad/actors/shard/gradient_order.hpp>
#include <mailgrad/actors/shard/host_readers.hpp>
#include <mailgrad/actors/shard/shard_cut.hpp>
#include <mailgrad/actors/shard/shard_telemetry.hpp>
#include <mailgrad/actors/shard/update_maker.hpp>
#include <mailgrad/actors/shard/worker_slots.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/shard/hogwild_handover.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/shard/turn_machine.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// The options of a parameter actor.
struct parameter_actor_options {
  std::shared_ptr<shard> weights; ///< owned by the actor while it lives
  policy_spec policy{"async", 1};
  /// Ranks 0 to workers - 1 take part; a barrier waits for all of them from the start.
  std::uint32_t workers = 1;
  caf::actor tracker;
  std::shared_ptr<const time_source> time;
  /// For the first shard: all other shards, which judge in its order if the policy requires it.
  std::vector<caf::actor> followers{};
  cure_spec cure{"none", 1};
  caf::actor recorder{};                       ///< gets the order in which gradients are judged; may be null
  std::shared_ptr<const recording> replayed{}; ///< the run to repeat: gradients are judged in its order
  std::shared_ptr<hogwild_store> store{};      ///< of all shards, if hogwild is among the policies of the run
  std::shared_ptr<card_block> on_card{};       ///< if that block is on the card of the shards
  std::shared_ptr<trace_track> trace{};        ///< the timeline; owned by the actor while it lives
  caf::actor tells_trace_to{};       ///< a coordinator elsewhere; null: the timeline goes with the report
  std::vector<caf::actor> helpers{}; ///< help with an update while every worker waits for it
  run_id run{};                      ///< gradients of another run are not taken
  std::shared_ptr<saved_fields> resumed{}; ///< the shard's part of a checkpoint to go on from; or null
  bool same_workers = true;                ///< as when that was taken
  std::vector<bool> counted{}; ///< by rank: that has all that the worker did; if not, it begins anew
  /// Whether checkpoints keep the last answer to each worker, because it cannot begin from newer weights.
  bool keep_answers = false;
  /// By rank: the last step that the worker itself has in the checkpoint; empty if there is none.
  std::vector<step_number> steps{};
  /// Ranks from `workers` to seats - 1 may join while the run goes on; 0: none may.
  std::uint32_t seats = 0;
  std::shared_ptr<const parameter_layout> layout{}; ///< of the run: which variables lie where in which shard
  notice_pace pace{};                               ///< how often the tracker is told of gradients
  std::shared_ptr<mark_watch> watch{}; ///< if the weights lie on a card; null: that of the process
  /// By rank, if the weights lie on a card: whether the worker computes elsewhere. It is sent copies that lie
  /// on the host, and its gradients come from there.
  std::vector<bool> elsewhere{};
  /// Tells when a policy closes a batch; null: the timer of this process, by the monotonic clock.
  std::shared_ptr<step_timer> timer{};
  /// Of one shard of a process: what its process waits for besides, such as those at its door. Any thread.
  std::function<std::vector<wait_named>()> waits_here{};
  /// Of a process whose workers share credit: is told whom the batch awaits first, and the version, when
  /// either changes; nothing while gradients have no turns. It must not block.
  std::function<void(std::optional<rank> first, version_number version)> awaits{};

  std::uint32_t ranks() const { return std::max(workers, seats); }
};

/// Owns one shard. It takes gradients in the order of its mailbox, stamps the staleness of each, updates, and
/// sends every worker the next weights as soon as the policy lets that worker start.
///
/// Guarantees  each gradient of a worker is taken at most once, in the order of its steps. A worker that
///             leaves is waited for no longer. Every push is answered: at once, or when a barrier opens, a
///             bound is kept again, its turn comes, or a switch lets all workers start anew.
/// Never       reads a clock or a random source of its own, blocks, or writes to weights that an actor holds.
///
///     serving --push_gradient--> judged --apply----------> updated --weights--> the worker, if it may start
///        ^                         |  \--merge--> pending --batch complete--> updated
///        +------- discarded -------+
///
/// If memory of a card is lacking, the weights are whole, so it takes no further gradient and keeps them for
/// the report of the run:
///
///     serving --memory is lacking--> failed --shard_failed--> every device, and who asks for the report
///
/// While every worker waits here, helpers compute parts of the update. All messages wait until it has ended:
///
///     serving --all wait, several parts--> updating --last part computed--> serving
///
/// Under hogwild the weights lie in a block that all workers write into, so this actor has nothing to judge.
/// It copies the weights there when hogwild begins, and takes them back when it ends.
///
/// Under a policy that requires shards to agree, the first shard judges in the order of its mailbox and tells
/// the others, which judge in the same order. In a replay all judge in the order of the recording. A switch
/// of policy waits until all gradients computed under the old policy are taken, applies the pending batch,
/// and lets every worker start anew. A replay also repeats that workers were lost: what this shard never had
/// of them it does not take.
class parameter_actor : private turn_machine::side {
public:
  static constexpr const char* name = "mailgrad.parameter-actor";

  parameter_actor(caf::event_based_actor* self, parameter_actor_options options);
  /// A card may still read and write what the members below have: gradients, sums, the state of a cure.
  ~parameter_actor() override { options_.weights->finish(); }
  parameter_actor(const parameter_actor&) = delete;
  parameter_actor& operator=(const parameter_actor&) = delete;
  caf::behavior make_behavior();

private:
  caf::behavior serving();
  caf::behavior updating();
  caf::behavior failed();
  /// Does work that may need memory of a card.
  template <class Work>
  void or_fail(const Work& work) {
    if (failure_) return;
    try {
      work();
    } catch (const out_of_memory& e) {
      fail(e.what());
    }
  }
  void fail(const std::string& why);
  void drop_checkpoint(std::uint64_t number, const caf::actor& collector);
  void quit_when_idle();
  void note_what_is_lost(worker_account& account) const;
  void on_join(const join_shard& x);
  void resume();
  void count_in(rank worker);
  void come_back(const join_shard& x);
  void answer(worker_slot& worker, const std::optional<stay_at_shard>& stay);
  void report_cut();
  void on_push(const push_gradient& from);
  void bring(push_gradient& x);
  bool is_elsewhere(rank worker) const;
  bool keeps_answers() const { return options_.keep_answers || turns_.rule().has_rounds(); }
  void on_leave(const worker_left& x);
  trained_told trained(const tell_trained& x);
  gradient_foretold foretell(const foretell_gradient& x) const;
  void on_switch(const switch_policy& x);

  void take_what_is_ready();
  void greet(rank worker, incarnation life);
  void take(const push_gradient& x, std::int64_t arrived);
  void keep_waiting(const push_gradient& x, std::uint64_t samples, verdict what);
  void take_lost(const order_entry& turn);
  void take_closed(const order_entry& turn);
  void on_window_over(const window_over& x);
  void watch_window();
  void take_missed(const order_entry& turn, const std::optional<push_gradient>& late);
  void send_home(worker_slot& worker);
  void let_go(rank worker, incarnation life, bool unjudged = false);
  void drop_stray(const gradient_header& x);
  decision judge(const order_entry& turn);
  bool all_taken(const switch_policy& x) const;
  void switch_if_all_taken();
  void begin(const switch_policy& x);

  // What the machine judges for.
  version_number version() const override { return options_.weights->version(); }
  bool nothing_waits() const override { return updates_.nothing_waits(); }
  bool is_updating() const override { return updater_.under_way(); }
  bool update(waits_in where, std::size_t first) override;
  void update_of_nothing() override;
  void add_lost(waits_in where) override { updates_.add_lost(where); }
  void begin_round(std::uint64_t rounds_over) override { updates_.begin_round(rounds_over); }
  void skip_to_waiting() override { updates_.skip_to_waiting(); }
  void clear_rounds() override { updates_.clear_rounds(); }

  void give_places();
  void tell_awaited();
  void tell_whom_it_awaits();
  void drop_batch();
  bool update(double rate);
  bool may_ask_for_help() const;
  void compute_part();
  void end_update_with_help();
  void release(std::optional<rank> just_taken = {});
  void start_if_due(rank waiting, std::optional<rank> just_taken);
  void name_waits_to(const caf::actor& asker) const;
  void on_read(const read_shard& x, const caf::actor& asker);
  shard_books books() const;
  shard_report report(const snapshot& values);
  void on_report_asked();
  std::function<void(trace_piece)> trace_to_coordinator();

  caf::event_based_actor* self_;
  parameter_actor_options options_;
  turn_machine turns_;
  worker_slots workers_;
  shard_telemetry watch_;
  shard_updater updater_;
  update_maker updates_;
  host_readers readers_;
  std::optional<rank> taking_; ///< whose gradient is being judged, unless the order is followed
  instant barrier_opened_{0};
  policy_epoch epoch_;
  std::optional<switch_policy> next_policy_; ///< begins when all gradients of the old one are taken
  caf::actor coordinator_;                   ///< that asked for it
  instant switch_asked_{0};
  gradient_order order_;
  hogwild_handover lease_; ///< of the weights, under hogwild
  shard_cut cut_;
  batch_window window_;
  /// What awaits() was told.
  struct awaited {
    std::optional<rank> first{};
    version_number version{};
  };
  std::optional<awaited> told_awaited_;
  std::optional<std::string> failure_; ///< why it takes no further gradient
  bool credit_is_free_ = false;        ///< workers may stand still, so nobody waits for a turn
};

} // namespace mailgrad
