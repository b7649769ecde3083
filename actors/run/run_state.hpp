#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>

#include <condition_variable>

namespace mailgrad {

/// What the actors of a run have told its owner: how far it is, its checkpoints, its waits, and how it ended.
/// Threads any.
class run_state {
public:
  explicit run_state(std::shared_ptr<const time_source> time) : time_(std::move(time)) {}

  // What actors tell.
  void tell(const training_progress& so_far) {
    std::lock_guard guard(mutex_);
    progress_ = so_far;
  }
  void tell(const checkpoint_account& so_far) {
    std::lock_guard guard(mutex_);
    checkpoints_ = so_far;
  }
  void tell(const wait_reason& wait) {
    std::lock_guard guard(mutex_);
    for (auto* waits : listeners_) waits->push_back(in_words(wait));
  }
  /// The policy that was begun last, or asked for since.
  void tell_policy(std::string text) {
    std::lock_guard guard(mutex_);
    policy_ = std::move(text);
  }
  /// The run ends now. Once.
  void end(run_outcome outcome) {
    std::lock_guard guard(mutex_);
    ended_ = time_->now();
    outcome_ = std::move(outcome);
    end_.notify_all();
  }

  /// As last told, before the end.
  training_progress progress() const {
    std::lock_guard guard(mutex_);
    return progress_;
  }
  checkpoint_account checkpoints() const {
    std::lock_guard guard(mutex_);
    return checkpoints_;
  }
  std::string policy() const {
    std::lock_guard guard(mutex_);
    return policy_;
  }

  /// Blocks until the run ends. The outcome stays where it is as long as this object lives.
  const run_outcome& wait() const {
    std::unique_lock lock(mutex_);
    end_.wait(lock, [this] { return outcome_.has_value(); });
    return *outcome_;
  }
  /// The same for at most `span`; true if the run has ended.
  bool wait_for(std::chrono::milliseconds span) const {
    std::unique_lock lock(mutex_);
    return end_.wait_for(lock, span, [this] { return outcome_.has_value(); });
  }
  /// Null while the run goes on.
  const run_outcome* outcome() const {
    std::lock_guard guard(mutex_);
    return outcome_ ? &*outcome_ : nullptr;
  }
  /// When the run ended, if it has, or else the present time.
  instant ended_or_now() const {
    std::lock_guard guard(mutex_);
    return outcome_ ? ended_ : time_->now();
  }

  /// Calls `ask`, which must not block, and returns each wait that an actor tells within `span`, in words.
  /// The end of the run cuts the span short.
  std::vector<std::string> reported_waits(const std::function<void()>& ask, std::chrono::milliseconds span);

private:
  const std::shared_ptr<const time_source> time_;
  mutable std::mutex mutex_; ///< guards the members below
  mutable std::condition_variable end_;
  training_progress progress_;
  checkpoint_account checkpoints_;
  std::string policy_;
  std::optional<run_outcome> outcome_;
  instant ended_{0};
  std::vector<std::vector<std::string>*> listeners_; ///< one for each caller of reported_waits()
};

/// Where threads that are no actors ask for the books of a run in progress.
/// Threads any.
class status_cache {
public:
  /// Asks the coordinator for the books of all actors. The result is the newest that is known within `span`,
  /// also if some actors have not answered by then, or the run has ended; nothing if none is known yet. If
  /// not even the coordinator answers, the books of an earlier question say how old they are by now.
  std::optional<run_outcome> ask(const caf::actor& coordinator, std::chrono::milliseconds span);

  /// The coordinator's callback (book_keeper::teller).
  void take(std::uint64_t request, const run_outcome& books);
  /// The run has ended, and nobody need wait for an answer.
  void close() {
    std::lock_guard guard(mutex_);
    closed_ = true;
    told_.notify_all();
  }

private:
  std::mutex mutex_; ///< guards all below
  std::condition_variable told_;
  std::uint64_t requests_ = 0;
  std::uint64_t answered_ = 0; ///< the last request whose books are here
  bool closed_ = false;
  std::optional<run_outcome> books_;
  std::chrono::steady_clock::time_point taken_{}; ///< when they came
};

} // namespace mailgrad
