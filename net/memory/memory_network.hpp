#pragma once

#include <mailgrad/net/network.hpp>
#include <mailgrad/net/timing.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace mailgrad::net {

struct memory_options {
  /// How long the thread reads again and again before it sleeps. An answer that finds it awake is heard
  /// sooner.
  std::chrono::microseconds spin = usual_spin();
  /// For how long connect() tries again where nobody listens, since a server may be started later.
  std::chrono::milliseconds patience{10'000};
};

/// Connections between processes of one machine and one user, by memory that both see.
///
///     memory_network net;
///     const std::string address = net.listen(server, "memory:run-7"); // in the one process
///     net.connect(client, address);                                   // in the other one
///
/// Addresses are "memory:NAME"; to listen, "memory:" is any name that is free. It needs no keys: the kernel
/// names the user of a peer, and another user is a refusal to both.
/// Guarantees  those of tcp_network. Nothing is left behind by a process, however it ends. A peer that writes
///             nonsense into the memory ends its own session alone.
/// Errors  listen(): std::invalid_argument for an address that is none; std::system_error if it is taken, or
///         if this system has no memory that can be sealed. connect(): std::invalid_argument for an address
///         that is none; what goes wrong later ends the session in one line.
/// Threads as tcp_network.
class memory_network final : public network {
public:
  /// Errors  std::invalid_argument if a time is negative. std::system_error if there is no thread to be had.
  explicit memory_network(const memory_options& options = {});
  /// Forgets every endpoint, and waits for their last words, half a second at most.
  ~memory_network() override;

  /// Whether this system has memory that can be sealed, which Linux has since 3.17.
  static bool is_supported() noexcept;

  std::string listen(server_end& server, const std::string& address) override;
  void connect(client_end& client, const std::string& address) override;
  void forget(endpoint& e) override;
  /// Nothing is done if the endpoint is not known.
  void post(endpoint& e, std::function<void(instant now)> work) override;

  /// The moment on the clock of this network.
  instant now() const noexcept override;

private:
  class implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace mailgrad::net
