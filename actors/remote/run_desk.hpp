#pragma once

#include <mailgrad/actors/remote/guest_host.hpp>
#include <mailgrad/actors/remote/serve_options.hpp>
#include <mailgrad/actors/remote/worker_server.hpp>
#include <mailgrad/engine/account/time_source.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::remote {

/// The time before a run over processes begins: all who are to begin it come to the server.
///
/// Errors   of wait_for_all() and place_shards(): called_off if `given_up` is set; std::runtime_error with
///          words if the owner of the run gives it up, if the patience of the options is over, or if a
///          parameter host has gone again.
/// Threads  one owner; any may set `given_up`.
class gathering {
public:
  /// All of them must outlive it.
  gathering(worker_server& server, const serve_options& options, const time_source& time,
            const std::atomic<bool>& given_up)
      : server_(server), options_(options), time_(time), given_up_(given_up), since_(time.now()) {}

  /// Waits until all workers and parameter hosts have joined.
  void wait_for_all();
  /// Has the parameter hosts spawn the shards, and waits until they are there. Returns a handle for each;
  /// none if the server holds them itself.
  std::vector<caf::actor> place_shards(shard_duties with);

private:
  void require_patience(const std::string& what) const;

  worker_server& server_;
  const serve_options& options_;
  const time_source& time_;
  const std::atomic<bool>& given_up_;
  instant since_; ///< when the waiting began
};

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
