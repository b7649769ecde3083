#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// The coordinator's part in a switch of policy: a fence that every worker and every shard passes, one switch
/// after the other. messages.hpp draws the protocol.
///
/// In a replay the recorded switches take the place of the schedule. Each begins when the feeder holds the
/// workers who take part at the batch before which they were paused then, and all others have ended.
///
/// Guarantees  every gradient computed under a policy is judged by that policy; under the next, all workers
///             start from the same version of each shard; a worker or shard that dies on the way holds up
///             nobody.
///
///     idle --request, step reached--> pausing --all workers paused or gone--> switching --all shards--> idle
class policy_switcher {
public:
  policy_switcher(caf::event_based_actor* self, std::vector<scheduled_policy> schedule, std::uint32_t workers,
                  std::vector<caf::actor> shards, caf::actor feeder, std::shared_ptr<const time_source> time,
                  const std::vector<recorded_switch>* replayed = nullptr, caf::actor recorder = {});

  /// Asks the feeder to say when it holds for a switch that is planned: what it deals after that is trained
  /// after it.
  void begin();

  void request(const request_switch& x);
  void on_joined(rank worker, const caf::actor& device);
  /// A worker that is accounted for, whatever became of it; what it trained as far as is known.
  void on_gone(rank worker, std::uint64_t batches);
  void on_step(const step_reached& x);
  void on_paused(const worker_paused& x);
  void on_switched(const policy_switched& x);
  void on_shard_lost(std::uint32_t shard);

  /// The policy now; while it switches, the one before.
  const std::string& policy() const noexcept { return policy_; }
  /// Whether a switch is under way or asked for.
  bool is_switching() const noexcept { return current_ || !waiting_.empty(); }

  /// Begins no further switch.
  void stop();

  /// Those that are done.
  const std::vector<policy_switch>& done() const noexcept { return done_; }
  /// Whom a switch waits for, in words; nothing if there is none.
  std::optional<wait_named> name_wait() const;

private:
  struct worker {
    caf::actor device;
    bool gone = false;
    std::optional<std::uint64_t> paused; ///< its step, in the switch at hand
    std::uint64_t batches = 0;           ///< trained, as far as is known
  };

  struct asked_switch {
    request_switch what;
    std::uint64_t held_at = 0; ///< the step that the feeder holds at for it; 0: it does not
  };

  void begin_next();
  pause_worker pause_order() const;
  bool others_have_ended() const;
  void note_switch();
  void switch_if_all_paused();
  void end_if_all_switched();

  caf::event_based_actor* self_;
  std::deque<scheduled_policy> planned_; ///< by step, still to come
  std::deque<asked_switch> waiting_;     ///< asked for, while another switch was under way
  std::string policy_;                   ///< now
  std::vector<worker> workers_;          ///< by rank
  std::vector<caf::actor> shards_;
  caf::actor feeder_;
  std::shared_ptr<const time_source> time_;

  std::optional<asked_switch> current_;
  instant begun_{0};
  std::uint64_t epoch_ = 0;
  bool all_paused_ = false;
  std::uint64_t trained_ = 0;  ///< by all workers when the last of them was paused
  std::vector<bool> switched_; ///< by shard
  std::vector<bool> lost_;     ///< by shard
  std::vector<policy_switch> done_;
  std::vector<recorded_switch> replayed_; ///< none: this is no replay, or one without switches
  caf::actor recorder_;                   ///< gets where each switch found the workers, if anybody does
  bool stopped_ = false;
};

} // namespace mailgrad
