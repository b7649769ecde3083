#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/remote/client_side.hpp>
#include <mailgrad/actors/worker/spawn_worker.hpp>
#include <mailgrad/engine/worker/own_samples.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/net/all_reduce.hpp>
#include <mailgrad/net/network.hpp>
#include <mailgrad/tensor/device.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad::remote {

/// One incarnation of a worker in a run of another process: its session, the actor of the worker, and
/// far_actors in place of its peers. When the session ends, for whatever reason, all of them end.
///
/// Threads begin(), wait_until_in() and the end of its life: one owner; the rest: any.
class member_life {
public:
  struct options {
    std::shared_ptr<net::network> network;
    std::string address; ///< of the server
    net::hello says;
    bool tries_once = false; ///< whether the server is known to have listened
    std::vector<device> devices;
    operation_registry known;
    known_plugins plugins;
    std::shared_ptr<const time_source> time;
    std::shared_ptr<own_samples> samples; ///< of this machine; null: the server sends batches
    std::function<void(const std::string& why)> on_streamed; ///< they are not those of the run
    std::function<std::unique_ptr<net::all_reduce>(std::size_t floats)> join_sums; ///< null: it cannot
    bool card_ends_run = false;      ///< a card that fails ends the run, in order, and not the worker alone
    std::function<void()> on_change; ///< the worker has begun; called by an actor, and must not block
  };

  /// Its actors live in `home`, which must outlive them.
  member_life(caf::actor_system& home, options o);
  /// Cuts the connections and ends the actors, if that has not happened. Does not wait for the actors.
  ~member_life();
  member_life(const member_life&) = delete;
  member_life& operator=(const member_life&) = delete;

  /// Connects, and returns at once.
  ///
  /// Errors  std::invalid_argument for no address.
  void begin() { client_.connect(address_); }
  /// Waits until the server has taken it in. Returns how it ended if it was not taken in.
  std::optional<net::ending> wait_until_in() { return client_.wait_until_in(); }

  std::optional<net::welcome> terms() const { return client_.terms(); }
  caf::actor worker() const;
  worker_peers peers() const;
  net::ending wait() const { return client_.wait(); }
  /// How its session has ended; none before. Never waits.
  std::optional<net::ending> outcome() const { return client_.outcome(); }

  /// Ends the worker after its present step. Does not wait.
  void leave();
  /// Cuts the connections without a word, and ends the actors.
  void cut(const std::string& words);

private:
  /// What the host's actor knows of it as well, which may live a little longer.
  struct shared {
    std::mutex mutex; ///< guards the members below
    std::function<void()> on_change{};
    bool ended = false;
    caf::actor worker{};
    worker_peers peers{};
    caf::actor host{};

    void take(const caf::actor& begun, const worker_peers& its_peers);
    void end();
  };

  const std::shared_ptr<shared> self_ = std::make_shared<shared>();
  const std::string address_;
  client_side client_;
};

/// How a process joins a run.
struct join_options {
  /// On what its worker computes, cores or lanes of cards: as many as each worker of the run has, several if
  /// its model spans them (watcher::devices_per_worker() tells). The first stands for the first of the
  /// placement.
  std::vector<device> devices{{device_kind::cpu, 0}};
  std::optional<std::uint32_t> number{}; ///< which worker it wants to be; none: whichever is free
  operation_registry known{};            ///< with operations of the program's own, if the model has such
  known_plugins plugins{}; ///< with update rules, if the worker takes local steps by one of the user's own
  /// Samples of this machine. If they are those that the run trains on, its workers here are told which of
  /// them to take, and no batch is sent. The same object may be given to several memberships, which then hold
  /// the samples once. Null: the server sends the batches.
  std::shared_ptr<own_samples> samples{};
  /// Takes part in sums of so many floats over all workers of the run (net/mpi/mpi_network.hpp), if the run
  /// has such. Null: it cannot, and refuses a run that does.
  std::function<std::unique_ptr<net::all_reduce>(std::size_t floats)> join_sums{};
  /// A card that fails ends the run as failed, in order, as where all workers share a process. Else the
  /// worker alone is lost. For processes of which none may end before the run, since a launcher then ends the
  /// others.
  bool card_ends_run = false;
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
/// Its handles are those of actors like any others: they can be sent to, asked and watched. The worker's
/// actor lives here; coordinator, feeder, tracker and shards are far_actors, which end when the server is
/// gone. A worker that was cut off and is back has new ones.
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
  ///         device_error for a card that this machine does not have; join_error: refused, nobody listens, or
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
  class implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace mailgrad::remote
