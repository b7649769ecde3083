#pragma once

#include <mailgrad/cli/interrupt.hpp>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace mailgrad {

/// What a process does while it tries to join a run: it says after a second that it waits for a server, and a
/// signal ends it at once, since it has nothing to lose.
///
/// Threads one owner; it has a thread of its own.
class connecting {
public:
  /// `quiet`: nothing is said but that a signal has ended it.
  connecting(const interrupt& ctrl_c, std::string address, bool quiet);
  /// It has joined, or was not taken in.
  ~connecting();
  connecting(const connecting&) = delete;
  connecting& operator=(const connecting&) = delete;

private:
  void watch();

  const interrupt& ctrl_c_;
  const std::string address_;
  const bool quiet_;
  std::mutex mutex_; ///< guards `over_`
  std::condition_variable ended_;
  bool over_ = false;
  std::thread watcher_;
};

} // namespace mailgrad
