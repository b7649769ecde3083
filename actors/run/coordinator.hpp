#pragma once

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
  bool feeder_traced = false;                           ///< ask it for its timeline
  std::vector<scheduled_policy> policies{{0, "async"}}; ///< the first, and those to switch to
  std::optional<auto_options> automatic{}; ///< auto_rule asks for further switches, on what `tracker` sees
  caf::actor tracker;                      ///< of an automatic run
  std::shared_ptr<const time_source> time = std::make_shared<machine_time>();
  std::function<void(run_outcome)> on_end;        ///< called once, by the coordinator; must not block
  std::function<void(const wait_named&)> on_wait; ///< called for each wait somebody asked to name
  std::shared_ptr<const recording> replayed{};    ///< the run to repeat: it switches where that did
  caf::actor recorder{};                          ///< gets the switches, if anybody does
};

/// Brings a run to its end: whatever becomes of the workers, every one is accounted for, then the shards are
/// asked for their books and the outcome is told.
///
/// Guarantees  on_end is called once, also when workers, shards or the feeder die; nobody waits for the dead.
/// Never       takes part in a step: batches are the permits, dealt ahead by the feeder. A switch of policy
///             is its switcher's affair.
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
  void on_report(const shard_report& x);
  void on_signals(const signals_observed& x);
  void account_for(const worker_report& report);
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
  std::vector<bool> reported_; ///< by shard: its books are here, or it is lost
  std::string last_lost_;      ///< a worker and what it said last
  bool abandoned_ = false;     ///< whoever joins now is told to give up
  bool collecting_ = false;
  policy_switcher switcher_;
  auto_rule rule_;
  std::size_t switches_seen_ = 0; ///< by the rule: a window with a switch in it says nothing of either policy
};

} // namespace mailgrad
