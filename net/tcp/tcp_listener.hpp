#pragma once

#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/stream/asio.hpp>

#include <functional>
#include <memory>

namespace mailgrad::net {

/// A port at which peers connect. Where the process has few descriptors left it closes a connection at once.
///
/// Threads that of the network.
class tcp_listener final : public std::enable_shared_from_this<tcp_listener> {
public:
  using took = std::function<void(tcp::socket socket)>;

  /// Errors  std::system_error that names the address.
  tcp_listener(asio::io_context& io, const listen_address& where, took told);

  void begin();
  void close();
  /// With the port that was free.
  const listen_address& address() const noexcept { return address_; }

private:
  void later();

  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  listen_address address_;
  took told_;
};

} // namespace mailgrad::net
