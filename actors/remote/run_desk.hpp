#pragma once

#include <mailgrad/actors/remote/guest_host.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace mailgrad::remote {

class worker_server;

/// Answers the watchers of a run over processes: `status`, `switch` and `stop`, and before the run has begun
/// who has joined.
///
/// Threads answer() any, begin() the owner's.
class run_desk {
public:
  /// What a watcher may ask of the run when it has begun.
  struct run {
    std::function<std::string()> status; ///< as JSON; empty: nothing is told
    std::function<void(const std::string& policy, const std::string& why)> switch_policy;
    std::function<void(const std::string& why)> stop;
  };

  run_desk(std::uint32_t workers, run asked) : workers_(workers), run_(std::move(asked)) {}

  /// The run has begun.
  void begin() { begun_ = true; }
  /// Set when a watcher has stopped the run before it began.
  const std::atomic<bool>& given_up() const noexcept { return given_up_; }

  /// Errors  std::invalid_argument: nothing that may be asked, now.
  run_answer answer(const worker_server& server, const std::string& what, const std::string& argument);

private:
  run_answer answer_before_begin(const worker_server& server, const std::string& what);

  const std::uint32_t workers_;
  const run run_;
  std::atomic<bool> begun_{false};    ///< watchers may ask before
  std::atomic<bool> given_up_{false}; ///< by a watcher
};

} // namespace mailgrad::remote
