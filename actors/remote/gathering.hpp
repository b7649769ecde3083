#pragma once

#include <mailgrad/actors/remote/serve_options.hpp>
#include <mailgrad/actors/remote/worker_server.hpp>
#include <mailgrad/engine/account/time_source.hpp>

#include <atomic>
#include <string>
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

} // namespace mailgrad::remote
