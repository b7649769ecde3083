#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>

#include <cstdint>

namespace mailgrad {

/// Sends the actor of a shard `window_over` when a batch shall be applied though others could still come.
///
/// Threads  those of its actor.
class batch_window {
public:
  /// `timer` may be null: it is then that of the process, which is asked for when a window first opens.
  batch_window(caf::event_based_actor* self, std::shared_ptr<step_timer> timer);
  ~batch_window();
  batch_window(const batch_window&) = delete;
  batch_window& operator=(const batch_window&) = delete;

  /// The pending batch closes at this moment, in ns of the run's time source, or at none. Asking again for
  /// the same moment costs nothing.
  ///
  /// Errors  std::logic_error: all actors are on one thread, and this one has no timer, so that the timer of
  ///         the process would send from its own.
  void watch(std::optional<std::int64_t> closes_at);

private:
  struct receiver;
  std::shared_ptr<receiver> receiver_;
  std::shared_ptr<step_timer> timer_;
  std::optional<std::int64_t> asked_; ///< the last moment
};

} // namespace mailgrad
