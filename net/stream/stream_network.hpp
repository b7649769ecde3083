#pragma once

#include <mailgrad/net/network.hpp>

namespace mailgrad::net {

class stream_host;
class stream_loop;

/// A network whose connections are streams of bytes, all of them on one thread of its own. A derived class
/// says how connections are made.
///
///     tcp_network net;
///     const std::string address = net.listen(server, "127.0.0.1:0"); // in the one process
///     client_end client(says, events, net.now());                    // in the other one
///     net.connect(client, address);
///     net.post(client, [&](instant) { client.own().send(message); });
///     net.forget(client);                                            // then it may be destroyed
/// Guarantees  after forget() has returned, nothing of the endpoint is called, and nothing that was posted
///             for it is done. Of many connections none holds up another.
/// Errors  listen(), connect(): std::invalid_argument for an address that is none; listen():
///         std::system_error if it is taken. What goes wrong later ends the session in one line.
/// Threads any, for every function. listen(), connect() and forget() wait for the network's thread, so
///         whoever calls them may hold no lock that an event takes. The work of post() and the events are
///         called on the network's thread: they may call any function and destroy neither the network nor an
///         endpoint. No exception may leave them, but what session_events says.
class stream_network : public network {
public:
  /// Forgets every endpoint, and waits for their last words, half a second at most.
  ~stream_network() override;

  std::string listen(server_end& server, const std::string& address) override;
  void connect(client_end& client, const std::string& address) override;
  void forget(endpoint& e) override;
  /// Nothing is done if the endpoint is not known.
  void post(endpoint& e, std::function<void(instant now)> work) override;

  instant now() const noexcept override;

protected:
  /// Makes the host of an endpoint, which is one of the two.
  using host_maker = std::function<std::shared_ptr<stream_host>(stream_loop&, server_end*, client_end*)>;

  /// `name` is for people. The thread stays awake for `spin`, and connect() tries for `patience`.
  /// Errors  std::invalid_argument if a time is negative. std::system_error if there is no thread to be had.
  stream_network(const std::string& name, std::chrono::microseconds spin, std::chrono::milliseconds patience,
                 host_maker make);

private:
  struct implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace mailgrad::net
