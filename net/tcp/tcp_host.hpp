#pragma once

#include <mailgrad/net/stream/stream_host.hpp>
#include <mailgrad/net/tcp/tcp_dialer.hpp>
#include <mailgrad/net/tcp/tcp_listener.hpp>
#include <mailgrad/net/tls/spare_buffers.hpp>
#include <mailgrad/net/tls/tls_keys.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad::net {

/// One endpoint on a network of TCP: who makes its connections.
///
/// Threads that of the network.
class tcp_host final : public stream_host {
public:
  using keys_ptr = std::shared_ptr<const tls_keys>;

  /// Without keys its connections are plain.
  tcp_host(stream_loop& loop, server_end& server, keys_ptr keys);
  tcp_host(stream_loop& loop, client_end& client, keys_ptr keys);

  /// Errors  std::system_error.
  listen_address listen(const listen_address& where);
  /// Tries for so long where nobody listens, and where connections are closed before a byte comes, as by a
  /// tunnel whose far end is not there yet. `on_wait` is told of the latter, once.
  void connect(const listen_address& where, instant patience, std::function<void(std::string)> on_wait);

private:
  void begin_dialling(connection_id id, plane p, instant patience) override;
  void stop_making() override;
  std::string server_name() const override;
  std::string early_end_words(const moved& last) const override;
  bool tries_again(const moved& last) override;

  void stand(connection_id id, tcp::socket socket);
  std::unique_ptr<byte_pipe> make_pipe(int socket) const;
  std::shared_ptr<tcp_host> self() { return std::static_pointer_cast<tcp_host>(shared_from_this()); }

  keys_ptr keys_;
  const std::shared_ptr<tls_buffers> buffers_ = std::make_shared<tls_buffers>();
  std::vector<std::shared_ptr<tcp_listener>> listeners_;
  std::shared_ptr<tcp_dialer> dialer_;
  asio::steady_timer again_;
  std::function<void(std::string)> on_wait_;
  instant patience_{0};
  instant until_{0};     ///< of patience
  listen_address where_; ///< of the server, as it was told
  listen_address found_; ///< of the server, as it was found
};

} // namespace mailgrad::net
