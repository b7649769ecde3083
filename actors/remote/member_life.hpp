#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/remote/client_side.hpp>
#include <mailgrad/actors/worker/spawn_worker.hpp>
#include <mailgrad/engine/worker/own_samples.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/net/all_reduce.hpp>
#include <mailgrad/net/network.hpp>
#include <mailgrad/tensor/device.hpp>

#include <cstddef>
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

} // namespace mailgrad::remote
