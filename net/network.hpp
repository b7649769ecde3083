#pragma once

#include <mailgrad/net/client_end.hpp>
#include <mailgrad/net/server_end.hpp>

#include <cstdint>
#include <functional>
#include <random>
#include <string>

namespace mailgrad::net {

/// What carries the bytes between endpoints. Every way to do so is one class that derives from this.
///
/// A network has one thread, and everything of its endpoints is done there. An endpoint must outlive its use:
/// it is told to the network by listen() or connect(), and taken back by forget().
/// Threads any for post(); what else there is, a derived class says.
class network {
public:
  virtual ~network() = default;

  /// Lets peers connect to the server. Returns the address under which they find it, with the port that was
  /// free if the port is 0.
  virtual std::string listen(server_end& server, const std::string& address) = 0;
  /// Makes the connections of a client. That it fails is told to the client's session.
  virtual void connect(client_end& client, const std::string& address) = 0;
  /// Closes all connections of an endpoint. Nothing of it is called after this.
  virtual void forget(endpoint& e) = 0;
  /// The moment on the clock of this network, which all moments of its endpoints are of.
  virtual instant now() const noexcept = 0;
  /// Does something with a session of the endpoint on the network's thread, and then sends what it has to
  /// say.
  virtual void post(endpoint& e, std::function<void(instant now)> work) = 0;
  /// A number that nobody can guess, for a session. Threads any.
  virtual std::uint64_t draw_key() {
    thread_local std::random_device source;
    return std::uint64_t{source()} << 32 | source();
  }
};

} // namespace mailgrad::net
