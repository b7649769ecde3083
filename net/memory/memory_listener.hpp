#pragma once

#include <mailgrad/net/stream/asio.hpp>

#include <functional>
#include <memory>
#include <string>

namespace mailgrad::net {

/// A name at which processes of this machine connect: that of an abstract Unix socket, so no file is left
/// behind whatever happens.
///
/// Threads that of the network.
class memory_listener final : public std::enable_shared_from_this<memory_listener> {
public:
  using took = std::function<void(stream_socket socket)>;

  /// An empty name: any that is free.
  /// Errors  std::system_error that names the address.
  memory_listener(asio::io_context& io, std::string name, took told);

  void begin();
  void close();
  const std::string& name() const noexcept { return name_; }

private:
  void take_one();
  void later();

  asio::local::stream_protocol::acceptor acceptor_;
  asio::steady_timer retry_;
  std::string name_;
  took told_;
};

} // namespace mailgrad::net
