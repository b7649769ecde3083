#pragma once

#include <mailgrad/actors/run/book_keeper.hpp>
#include <mailgrad/actors/run/checkpointer.hpp>
#include <mailgrad/actors/run/policy_switcher.hpp>
#include <mailgrad/engine/account/run_outcome.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

struct coordinator_options {
  std::uint32_t workers = 1;
  std::vector<caf::actor> shards;
  caf::actor feeder;
  bool feeder_traced = false;                                ///< the feeder is asked for its timeline
  std::vector<scheduled_policy> policies{{0, {"async", 1}}}; ///< the first policy, and those to switch to
  std::optional<auto_options> automatic{}; ///< auto_rule asks for further switches, by what `tracker` sees
  caf::actor tracker;                      ///< needed if the run is automatic
  std::shared_ptr<const time_source> time = std::make_shared<machine_time>();
  std::function<void(run_outcome)> on_end;        ///< called once, by the coordinator; must not block
  std::function<void(const wait_named&)> on_wait; ///< called for each wait that an actor names
  caf::actor observer{};                          ///< gets each switch that is done; may be null
  std::shared_ptr<const recording> replayed{};    ///< the run to repeat, with its switches
  caf::actor recorder{};                          ///< gets the switches; null in a run that is not recorded
  checkpointer_options checkpoints{};             ///< how checkpoints are taken, if at all
  std::optional<kept_schedule> resumed{};         ///< of a checkpoint, to go on from
  /// Called when a checkpoint is written or has failed; must not block.
  std::function<void(const checkpoint_account&)> on_checkpoint{};
  bool shards_tell_books = true;  ///< false for parameter actors of the user's own
  book_keeper::teller on_books{}; ///< called with the books so far when they are asked for; must not block
};

/// Brings a run to its end. It waits until every worker has reported or died, asks the shards for their
/// reports, and tells the outcome.
///
/// Guarantees  on_end is called once, also when workers, shards or the feeder die. No actor waits for a dead
///             one.
/// Never       takes part in a step: a dealt batch is the permit to compute. Its policy_switcher switches
///             policies.
///
///     running --stop, divergence, failure--> stopping --last worker accounted for--> collecting --> ended
///        \--------------------- last worker accounted for -------------------------/
class coordinator {
public:
  static constexpr const char* name = "mailgrad.coordinator";

  coordinator(caf::event_based_actor* self, coordinator_options options);
  caf::behavior make_behavior();

private:
  caf::behavior running();
  void on_joined(const worker_joined& x);
  void on_lost(const worker_lost& x);
  void on_shard_lost(const shard_lost& x);
  void on_feeder_lost(const feeder_lost& x);
  void abandon(const std::string& why);
  void send_home();
  bool diverges_as_recorded(run_outcome::ending how) const;
  void on_switched(const policy_switched& x);
  void on_report(const shard_report& x);
  void on_part(const checkpoint_part& x);
  void on_signals(const signals_observed& x);
  void account_for(const worker_report& report);
  caf::message_handler checkpoints();
  caf::message_handler books();
  void go_on_with_checkpoints();
  void stop_when_kept(const stop_training& x);
  void stop(run_outcome::ending how, std::string why);
  void collect_if_all_accounted();
  void ask_for_books();
  void ask_for_books_of(const caf::actor& shard);
  void end_if_all_reported();

  caf::event_based_actor* self_;
  coordinator_options options_;
  run_outcome outcome_;
  std::vector<bool> accounted_; ///< by rank
  std::vector<caf::actor> devices_;
  std::vector<incarnation> lives_; ///< by rank: of the worker that joined last
  std::vector<bool> reported_;     ///< by shard: its report is here, or it is lost
  std::string last_lost_;          ///< a worker, and the text of the exception that ended it
  bool abandoned_ = false;         ///< a worker that joins now is told to give up
  bool collecting_ = false;
  policy_switcher switcher_;
  checkpointer checkpointer_;
  book_keeper books_;
  std::optional<stop_training> stop_when_kept_; ///< the run stops when a last checkpoint is collected
  auto_rule rule_;
  std::size_t switches_seen_ = 0; ///< by the rule, which ignores a window with a switch in it
};

} // namespace mailgrad
