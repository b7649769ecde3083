#pragma once

#include <mailgrad/engine/account/checkpoint_account.hpp>
#include <mailgrad/engine/account/run_outcome.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/training_progress.hpp>
#include <mailgrad/engine/account/wait_named.hpp>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// What the actors of a run have told its owner: how far it is, its checkpoints, its waits, and how it ended.
///
/// Threads any.
class run_state {
public:
  explicit run_state(std::shared_ptr<const time_source> time) : time_(std::move(time)) {}

  // What actors tell.
  void tell(const training_progress& so_far);
  void tell(const checkpoint_account& so_far);
  void tell(const wait_named& wait);
  /// The policy that was begun last, or asked for since.
  void tell_policy(std::string text);
  /// The run ends now. Once.
  void end(run_outcome outcome);

  /// As last told, before the end.
  training_progress progress() const;
  checkpoint_account checkpoints() const;
  std::string policy() const;

  /// Blocks until the run ends. The outcome stays where it is as long as this object lives.
  const run_outcome& wait() const;
  /// The same for at most `span`; true if the run has ended.
  bool wait_for(std::chrono::milliseconds span) const;
  /// Null while the run goes on.
  const run_outcome* outcome() const;
  /// When the run ended, if it has, or else the present time.
  instant ended_or_now() const;

  /// Calls `ask`, which must not block, and returns each wait that an actor tells within `span`, in words.
  /// The end of the run cuts the span short.
  std::vector<std::string> waits_told(const std::function<void()>& ask, std::chrono::milliseconds span);

private:
  const std::shared_ptr<const time_source> time_;
  mutable std::mutex mutex_; ///< guards the members below
  mutable std::condition_variable end_;
  training_progress progress_;
  checkpoint_account checkpoints_;
  std::string policy_;
  std::optional<run_outcome> outcome_;
  instant ended_{0};
  std::vector<std::vector<std::string>*> listeners_; ///< one for each caller of waits_told()
};

} // namespace mailgrad
