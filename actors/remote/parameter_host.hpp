#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/shard/own_parameter_actor.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/plan/known_plugins.hpp>
#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/network.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad::remote {

/// How a process holds shards of a run.
struct parameter_host_options {
  /// Where workers find the shards: HOST:PORT, an address of this machine that they can connect to, port 0: a
  /// free one; or memory:NAME.
  std::string listen = "127.0.0.1:0";
  /// What carries the bytes; null: shared memory for memory:NAME, else TCP, which then needs a loopback
  /// address.
  std::shared_ptr<net::network> network{};
  std::shared_ptr<const time_source> time = std::make_shared<machine_time>();
  /// Plug-ins and update rules of its own, of which the run may need some.
  known_plugins plugins{};
  /// The parameter actor of the program's own that the run has in place of Mailgrad's; null: none.
  std::shared_ptr<const own_parameter_actor> parameter_actor{};
  /// Called when the shards are there, and before the server hears of it, with their numbers and the address
  /// where workers find them, from a thread of the actors. The run waits for it to return.
  std::function<void(const std::vector<std::uint32_t>& shards, const std::string& address)> on_begin{};
  /// Called for every worker that is refused, with one line of words, from the network's thread. It must not
  /// block.
  std::function<void(const std::string&)> on_event{};
};

/// A process that holds shards of a run for its server, and takes gradients from the workers itself.
///
///     remote::parameter_host here("10.0.0.1:7000", {.listen = "10.0.0.2:0"});
///     here.wait();
///
/// The run cannot go on without it: if it ends first, the run fails in order.
/// Threads one owner.
class parameter_host {
public:
  /// Joins, which takes as long as a connection needs.
  ///
  /// Errors  remote::join_error: refused, nobody listens, or the connection ended first.
  parameter_host(const std::string& address, parameter_host_options options);
  /// Ends the session if it has not ended, and with it the run.
  ~parameter_host();
  parameter_host(const parameter_host&) = delete;
  parameter_host& operator=(const parameter_host&) = delete;

  /// "parameter host 0 (incarnation 1)"
  std::string name() const;
  /// Waits until the session has ended, but at most for `span`; true if it has.
  bool wait_for(std::chrono::milliseconds span);
  /// Waits for the end. Returns why: the reason `left` is that of a run that went well.
  net::ending wait();
  /// Leaves, which ends the run. Does not wait.
  void leave(const std::string& why);

private:
  class implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace mailgrad::remote
