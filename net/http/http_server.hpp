#pragma once

#include <mailgrad/net/http/http_message.hpp>
#include <mailgrad/net/listen_address.hpp>

#include <chrono>
#include <memory>

namespace mailgrad {

/// What a client may take from a server.
struct http_limits {
  std::size_t header_bytes = 8 << 10, body_bytes = 16 << 10;
  std::size_t connections = 64;               ///< at once; a further one is told to come back later
  std::size_t queued_bytes = 1 << 20;         ///< of a stream: a client that is further behind is cut off
  std::chrono::milliseconds patience{10'000}; ///< until a request is whole, or a response is taken
  std::chrono::milliseconds beat{15'000};     ///< between signs of life to a stream
};

/// An HTTP/1.1 server that answers from a thread of its own.
/// Guarantees  a slow client holds up nobody: it is cut off. A header or body beyond its limit gets 431 or
///             413, and what is no HTTP gets 400. An exception of the handler gets 500 with its text.
/// Never       speaks TLS, follows a path into a file system, or reads more of a body than its limit.
/// Threads     the handler runs on the server's thread, one request after the other, so it must answer soon.
///             publish() and viewers(): any; the rest: the owner's.
class http_server {
public:
  /// Listens from now on. Clients that connect before serve() wait.
  /// Errors  std::system_error with the address, if it is taken or is not one of this machine.
  explicit http_server(const listen_address& where, const http_limits& limits = {});
  /// Cuts off all clients, streams after what is queued for them; takes a second at most.
  ~http_server();
  http_server(http_server&&) noexcept;
  http_server& operator=(http_server&&) noexcept;

  /// Answers from now on; call it once.
  void serve(http_handler answer);
  /// Where it listens, with the port that it got.
  const listen_address& address() const noexcept;
  /// How many clients take the stream of events.
  std::size_t viewers() const noexcept;
  /// Sends this to every stream; see server_sent_event(). Never waits for a client.
  void publish(std::string event);

private:
  struct implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace mailgrad
