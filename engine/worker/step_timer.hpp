#pragma once

#include <mailgrad/engine/account/time_source.hpp>

#include <functional>
#include <memory>

namespace mailgrad {

/// Calls a notice at a moment. No actor sleeps: one that idles asks for a notice, which sends it a message.
/// Threads any.
class step_timer {
public:
  /// It may only send a message or note something, and throws nothing.
  using notice = std::function<void()>;

  virtual ~step_timer() = default;
  /// Calls `tell` once, on any thread, as soon as the clock of the run shows `when`, also if that is past.
  virtual void at(instant when, notice tell) = 0;
};

/// A timer by machine_time, with a thread for all moments of this process.
/// Errors  std::system_error: there can be no thread.
std::shared_ptr<step_timer> timer_of_process();

} // namespace mailgrad
