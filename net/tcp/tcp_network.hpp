#pragma once

#include <mailgrad/net/network.hpp>
#include <mailgrad/net/timing.hpp>
#include <mailgrad/net/tls/tls_keys.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace mailgrad::net {

struct tcp_options {
  /// How long the thread reads again and again before it sleeps. An answer that finds it awake is heard
  /// sooner.
  std::chrono::microseconds spin = usual_spin();
  /// For how long connect() tries again where nobody listens, or where a tunnel closes what it has taken,
  /// since a server may be started later.
  std::chrono::milliseconds patience{10'000};
  /// Told on the network's thread, once for each connect(), what it waits for behind such a tunnel.
  std::function<void(std::string words)> on_wait{};
  /// Every connection is encrypted, and its peer has to have the same kind of keys. None: plain, and on this
  /// machine alone.
  std::shared_ptr<const tls_keys> keys{};
};

/// Connections of TCP, all of them on one thread of its own.
///
///     tcp_network net;
///     const std::string address = net.listen(server, "127.0.0.1:0"); // in the one process
///     client_end client(says, events, net.now());                    // in the other one
///     net.connect(client, address);
///     net.post(client, [&](instant) { client.own().send(message); });
///     net.forget(client);                                            // then it may be destroyed
///
/// Addresses are those of parse_listen_address(), and connect() looks up names besides.
/// Guarantees  after forget() has returned, nothing of the endpoint is called, and nothing that was posted
///             for it is done. Of many connections none holds up another.
/// Errors  listen(): std::invalid_argument for an address that is none, or not of this machine alone if there
///         are no keys; std::system_error if it is taken. connect(): std::invalid_argument for an address
///         that is none; what goes wrong later ends the session in one line. A peer with other keys is a
///         refusal to both.
/// Threads any, for every function. listen(), connect() and forget() wait for the network's thread, so
///         whoever calls them may hold no lock that an event takes. The work of post() and the events are
///         called on the network's thread: they may call any function and destroy neither the network nor an
///         endpoint. No exception may leave them, but what session_events says.
class tcp_network final : public network {
public:
  /// Errors  std::invalid_argument if a time is negative. std::system_error if there is no thread to be had.
  explicit tcp_network(const tcp_options& options = {});
  /// Forgets every endpoint, and waits for their last words, half a second at most.
  ~tcp_network() override;

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
