#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/plan/known_plugins.hpp>
#include <mailgrad/engine/worker/local_samples.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/net/all_reduce.hpp>
#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/network.hpp>
#include <mailgrad/tensor/device.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace caf {
class actor;
}

namespace mailgrad {
struct worker_peers;
}

namespace mailgrad::remote {

/// A run did not take a process in, in words that name what it expected and what it found.
class join_error : public std::runtime_error {
public:
  explicit join_error(const net::ending& why)
      : std::runtime_error(why.words), refused_for_(why.refused_for) {}

  /// Whether the server took no more of its kind, or another has the number that this one asked for.
  bool is_for_its_place() const noexcept { return refused_for_ == net::refusal_code::number; }

private:
  std::optional<net::refusal_code> refused_for_;
};

/// How a process joins a run.
struct join_options {
  /// On what its worker computes, cores or streams of GPUs: as many as each worker of the run has, several if
  /// its model spans them (watcher::devices_per_worker() tells). The first stands for the first of the
  /// placement.
  std::vector<device> devices{{device_kind::cpu, 0}};
  std::optional<std::uint32_t> number{}; ///< which worker it wants to be; none: whichever is free
  operation_registry known{};            ///< with operations of the program's own, if the model has such
  known_plugins plugins{}; ///< with update rules, if the worker takes local steps by one of the user's own
  /// Samples of this machine. If they are those that the run trains on, its workers here are told which of
  /// them to take, and no batch is sent. The same object may be given to several memberships, which then hold
  /// the samples once. Null: the server sends the batches.
  std::shared_ptr<local_samples> samples{};
  /// Takes part in sums of so many floats over all workers of the run (net/mpi/mpi_network.hpp), if the run
  /// has such. Null: it cannot, and refuses a run that does.
  std::function<std::unique_ptr<net::all_reduce>(std::size_t floats)> join_sums{};
  /// A GPU that fails ends the run as failed, in order, as where all workers share a process. Else the
  /// worker alone is lost. For processes of which none may end before the run, since a launcher then ends the
  /// others.
  bool gpu_ends_run = false;
  /// What carries the bytes; null: shared memory for memory:NAME, else TCP without keys.
  std::shared_ptr<net::network> network{};
  std::shared_ptr<const time_source> time = std::make_shared<machine_time>();
  /// For how long a worker that was cut off from its run tries to come back, as its next incarnation
  /// (client_side.hpp). 0: its membership ends.
  std::chrono::milliseconds rejoin{0};
  /// Called with one line of words when it is cut off and when it is back, from a thread of the membership.
  /// It must not block.
  std::function<void(const std::string&)> on_event{};
  /// Called in the same way if `samples` are not those of the run, with what was expected and found. The
  /// server then sends the batches.
  std::function<void(const std::string&)> on_streamed{};
};

/// A worker in a run of another process.
///
///     remote::membership here("10.0.0.1:7000", {});
///     here.wait();
///
/// Its handles are those of actors like any others: a program that includes actors/protocol/messaging.hpp and
/// actors/worker/spawn_worker.hpp can send to them, ask and watch them. The worker's actor lives here;
/// coordinator, feeder, tracker and shards are actor proxies, which end when the server is gone. A worker
/// that was cut off and is back has new ones.
///
///     joining --> in --cut off--> trying --back--> in        (join_options::rejoin)
///                  \--any other end--> ended <--/
///
/// Guarantees  nothing of the earlier incarnation counts twice.
/// Threads  one owner; name(), the handles: any.
class membership {
public:
  /// Joins, and returns when the server has taken this process in. The worker begins when all have come.
  ///
  /// Errors  std::invalid_argument for no address, a negative time, or devices that are none or there twice;
  ///         device_error for a GPU that this machine does not have; join_error: refused, nobody listens, or
  ///         the connection ended first.
  membership(const std::string& address, join_options options);
  /// Leaves if it has not ended.
  ~membership();
  membership(const membership&) = delete;
  membership& operator=(const membership&) = delete;

  /// "worker 1 (incarnation 1)", of its present or its last incarnation.
  std::string name() const;
  caf::actor worker() const;
  worker_peers peers() const;

  /// Waits until the worker has its terms, but at most for `span`; true if it has begun or ended.
  bool wait_for_begin(std::chrono::milliseconds span);
  /// Waits until the membership has ended, but at most for `span`; true if it has.
  bool wait_for(std::chrono::milliseconds span);
  /// Waits for the end. Returns why: the reason `left` is that of a run that went well.
  net::ending wait();
  /// Ends the worker after its present step. Does not wait.
  void leave();
  /// Cuts the connections without a word, as a crash does, and ends the membership.
  void cut();

private:
  struct implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace mailgrad::remote

namespace mailgrad {

/// Joins the run at this address, and returns when it is taken in: `join("10.0.0.1:7000").wait();`
///
/// Errors  as membership().
inline remote::membership join(const std::string& address, remote::join_options options = {}) {
  return {address, std::move(options)};
}

} // namespace mailgrad
