#pragma once

#include <mailgrad/net/client_end.hpp>
#include <mailgrad/net/server_end.hpp>
#include <mailgrad/net/tcp/tcp_connection.hpp>
#include <mailgrad/net/tcp/tcp_dialer.hpp>
#include <mailgrad/net/tcp/tcp_listener.hpp>
#include <mailgrad/net/tls/tls_keys.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad::net {

/// One endpoint on a network of TCP: its connections, and who makes them.
///
/// The endpoint may be forgotten within any call to it, so nothing of it is touched after one without a look.
/// Threads that of the network.
class tcp_host final : public std::enable_shared_from_this<tcp_host> {
public:
  using keys_ptr = std::shared_ptr<const tls_keys>;

  /// Without keys its connections are plain.
  tcp_host(tcp_loop& loop, server_end& server, keys_ptr keys);
  tcp_host(tcp_loop& loop, client_end& client, keys_ptr keys);

  /// Errors  std::system_error.
  listen_address listen(const listen_address& where);
  void connect(const listen_address& where, instant patience);
  void work(const std::function<void(instant)>& what);
  /// Closes every connection. The endpoint is not called again.
  void forget();

  /// Reads what has come for a connection, a turn's worth. Whether anything came.
  bool read(const std::shared_ptr<tcp_connection>& c);
  /// Sends what the endpoint has to say on a connection.
  void flush(const std::shared_ptr<tcp_connection>& c);
  /// Sets the clock for the next tick.
  void schedule();

private:
  using connection_ptr = std::shared_ptr<tcp_connection>;

  void dial(instant patience);
  void open(connection_id id, tcp::socket socket);
  bool take(const connection_ptr& c, std::span<std::byte> place, std::size_t count);
  void pump();
  void lose(const connection_ptr& c, const moved& last);
  std::string end_words(const moved& last) const;
  std::unique_ptr<byte_pipe> make_pipe(int socket) const;
  void let_go(const connection_ptr& c);
  bool has(const connection_ptr& c) const { return c->host == this; }
  void tick();
  timing times() const;

  tcp_loop* loop_;
  endpoint* at_;
  client_end* client_ = nullptr;
  server_end* server_ = nullptr;
  keys_ptr keys_;
  std::map<connection_id, connection_ptr> connections_;
  std::vector<connection_ptr> speakers_; ///< those that have said something
  std::vector<std::shared_ptr<tcp_listener>> listeners_;
  std::shared_ptr<tcp_dialer> dialer_;
  listen_address where_; ///< of the server, as it was told
  listen_address found_; ///< of the server, as it was found
  bool heard_ = false;   ///< of a client: a byte has come
  asio::steady_timer clock_;
  instant tick_at_ = instant::max();
};

} // namespace mailgrad::net
