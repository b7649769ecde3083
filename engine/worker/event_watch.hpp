#pragma once

#include <mailgrad/tensor/memory.hpp>

#include <exception>

namespace mailgrad {

/// Tells when events pass. No actor waits for a GPU: it has its events watched, and is sent a message.
/// Threads any.
class event_watch {
public:
  /// Called once, on a thread of the watch. The argument is null if the event has passed, else why it never
  /// will: a device_error of its device. It may only send a message or note something, and it throws nothing.
  using notice = std::function<void(std::exception_ptr)>;

  virtual ~event_watch() = default;
  virtual void when_passed(device_event m, notice tell) = 0;
};

/// A watch with a thread, which all queues of this process share. It looks at what the GPUs tell again and
/// again for 2 ms, then every 50 microseconds, as a small step takes less time than to wake a thread. An
/// event that no GPU tells of is asked for less often the longer it is watched, but at least every 50
/// microseconds.
/// Errors  std::system_error: there can be no thread.
std::shared_ptr<event_watch> watch_of_process();

} // namespace mailgrad
