#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/order_log.hpp>
#include <mailgrad/actors/shard/shard_telemetry.hpp>
#include <mailgrad/actors/shard/shard_updater.hpp>
#include <mailgrad/actors/shard/worker_slot.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/shard/gradient_batch.hpp>
#include <mailgrad/engine/shard/hogwild_handover.hpp>
#include <mailgrad/engine/shard/ordered_gradients.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/shard/shard_cure.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// What a parameter actor is born with.
struct parameter_actor_options {
  std::shared_ptr<shard> weights; ///< nobody else holds it once the actor lives
  std::string policy;
  /// Ranks 0 to workers - 1 take part; a barrier waits for all of them from the start.
  std::uint32_t workers = 1;
  caf::actor tracker;
  std::shared_ptr<const time_source> time;
  /// Of the first shard: all others, which judge in its order if they must.
  std::vector<caf::actor> followers{};
  std::string cure = "none"; ///< of staleness, as make_cure() reads it
  caf::actor recorder{};     ///< gets the order in which gradients are judged, if anybody does
  std::shared_ptr<const recording> replayed{}; ///< the run to repeat: gradients are judged in its order
  std::shared_ptr<hogwild_store> store{};      ///< of all shards, if hogwild is among the policies to come
  std::shared_ptr<trace_track> trace{};        ///< to record into; nobody else holds it once the actor lives
  std::vector<caf::actor> hands{};             ///< that help with an update while every worker waits for it
};

/// Owns one shard: takes gradients in the order of its mailbox, stamps the staleness of each, updates, and
/// sends every worker the next weights as soon as the policy lets it start.
///
/// Guarantees  each gradient of a worker is taken at most once and in the order of its steps; a worker that
///             leaves is waited for no longer; every push is answered, if only when a barrier opens, a bound
///             lets go, its turn comes, or a switch lets all start anew.
/// Never       reads a clock or a random source of its own, blocks, or writes to weights that somebody holds.
///
///     serving --push_gradient--> judged --apply----------> updated --weights--> the worker, if it may start
///        ^                         |  \--merge--> pending --batch complete--> updated
///        +------- discarded -------+
///
/// While every worker waits here, hands compute parts of the update. Until it is done, all messages wait:
///
///     serving --all wait, several parts--> updating --last part computed--> serving
///
/// Under hogwild the weights lie in a block that all workers write into, and this actor has nothing to judge:
/// it hands them over when hogwild begins, and takes them back when it ends.
///
/// Where the policy wants shards to agree, the first judges in the order of its mailbox and tells the others,
/// which judge in its order; in a replay all judge in the order of a recording. A switch of policy waits
/// until all is taken that was computed under the old one, applies what lies in the batch, and lets every
/// worker start anew.
class parameter_actor {
public:
  static constexpr const char* name = "mailgrad.parameter-actor";

  parameter_actor(caf::event_based_actor* self, parameter_actor_options options);
  caf::behavior make_behavior() { return serving(); }

private:
  caf::behavior serving();
  caf::behavior updating();
  void on_join(const join_shard& x);
  void on_push(const push_gradient& x);
  void on_leave(const worker_left& x);
  void on_switch(const switch_policy& x);

  bool leads() const { return policy_->shards_agree() && !follows(); }
  bool follows() const {
    return options_.replayed || (policy_->shards_agree() && options_.weights->index() != 0);
  }
  void tell_followers(const order_entry& turn);
  void announce(const order_entry& turn);
  void take_turns();
  void greet(rank worker);
  void take(const push_gradient& x, std::int64_t arrived);
  void take_lost(const order_entry& turn);
  void let_go(rank worker);
  void drop_stray(const push_gradient& x);
  decision judge(const order_entry& turn);
  bool all_taken(const switch_policy& x) const;
  void switch_if_all_taken();
  void begin(const switch_policy& x);

  void apply(const push_gradient& x);
  void merge(const push_gradient& x);
  void apply_batch_if_complete();
  void apply_batch();
  contribution counted(const waiting_gradient& g, float share);
  void update(double rate);
  /// Ends this actor; who watches it learns which update of which rule failed, and why.
  [[noreturn]] void fail_update(const std::string& why) const;
  bool may_ask_for_help() const;
  void compute_part();
  void end_update_with_help();
  void note_update();
  /// What a gradient counts with for its staleness, which is noted.
  double observe(const push_gradient& x);
  void sample(const push_gradient& x);
  void release(std::optional<rank> just_taken = {});
  void name_waits_to(const caf::actor& asker) const;
  shard_report report();

  caf::event_based_actor* self_;
  parameter_actor_options options_;
  std::unique_ptr<policy> policy_;
  shard_cure cure_;
  std::vector<worker_slot> slots_; ///< by rank
  gradient_batch pending_;
  shard_updater updater_;
  bool of_batch_ = false;      ///< the update at hand is, not of one gradient by itself
  std::optional<rank> taking_; ///< whose gradient is being judged, where nothing but its answer follows
  instant barrier_opened_{0};
  std::uint64_t epoch_ = 0;
  std::optional<switch_policy> next_policy_; ///< begins when all of the old is taken
  caf::actor coordinator_;                   ///< who asked for it
  instant switch_asked_{0};
  ordered_gradients turns_;
  order_log log_;
  shard_telemetry watch_;
  hogwild_handover lease_; ///< hogwild
};

} // namespace mailgrad
