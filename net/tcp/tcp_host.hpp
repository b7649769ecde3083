#pragma once

#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/stream/asio.hpp>
#include <mailgrad/net/stream/stream_host.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>
#include <mailgrad/net/timing.hpp>
#include <mailgrad/net/tls/socket_bio.hpp>
#include <mailgrad/net/tls/tls_keys.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad::net {

/// Where the peer is.
enum class distance { on_this_machine, on_another };

/// One try after the other to connect to a server: at each address that its name has, and again after a pause
/// as long as nobody listens there, or nobody can say now whether there is such a name.
///
/// Threads that of the network.
class tcp_dialer final : public connection_maker, public std::enable_shared_from_this<tcp_dialer> {
public:
  /// Takes the addresses of a name, or why there are none.
  using found = std::function<void(error_code failed, const std::vector<tcp::endpoint>& places)>;
  struct plan {
    std::string host; ///< a number or a name
    std::uint16_t port = 0;
    instant patience{0};        ///< tries again for so long
    instant answer{0};          ///< waits so long for each answer
    bool only_loopback = false; ///< connects to this machine alone
    /// Asks for the addresses of `host`, on the network's thread; none: asks the system.
    std::function<void(found told)> look_up{};
  };
  /// What became of it: a socket that stands, or words that say why there is none.
  struct outcome {
    tcp::socket socket;
    std::string words{};
    bool nobody_listens = false; ///< the machine is there, and refuses
  };
  /// Called once.
  using done = std::function<void(outcome)>;

  tcp_dialer(asio::io_context& io, plan p, done told);

  void begin() override;
  void stop() override;

private:
  void resolve();
  void look_up(found told);
  void begin_trying();
  void try_next();
  void answered(error_code failed);
  bool pause(std::function<void()> then);
  void give_up(std::string words, bool nobody_listens = false);
  std::string words_of(error_code failed) const;
  std::string name() const;

  asio::io_context* io_;
  plan plan_;
  done told_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer clock_;
  std::vector<tcp::endpoint> places_;
  std::size_t next_ = 0;
  asio::steady_timer::time_point until_;
  std::chrono::milliseconds pause_{25};
  error_code last_;
  bool is_late_ = false; ///< the try under way had no answer in time
};

/// One endpoint on a network of TCP: who makes its connections.
///
/// Threads that of the network.
class tcp_host final : public stream_host {
public:
  tcp_host(stream_loop& loop, server_end* server, client_end* client, const tcp_options& options);

  /// A connection is closed at once where the process has few descriptors left.
  std::string listen(const std::string& address) override;
  void aim_at(const std::string& address) override { where_ = parse_server_address(address); }
  /// Tries for so long where nobody listens, and where connections are closed before a byte comes, as by a
  /// tunnel whose far end is not there yet.
  void connect(instant patience) override;

private:
  std::shared_ptr<connection_maker> dialer_for(connection_id id, plane p, instant patience) override;
  std::string server_name() const override;
  std::string early_end_words(const moved& last) const override;
  bool tries_again(const moved& last) override;

  void stand(connection_id id, tcp::socket socket);
  std::unique_ptr<byte_pipe> make_pipe(int socket) const;
  std::shared_ptr<tcp_host> self() { return std::static_pointer_cast<tcp_host>(shared_from_this()); }

  const std::shared_ptr<const tls_keys> keys_; ///< null: its connections are plain
  const std::shared_ptr<tls_buffers> buffers_ = std::make_shared<tls_buffers>();
  asio::steady_timer again_;
  std::function<void(std::string)> on_wait_; ///< told once
  instant patience_{0};
  instant until_{0};     ///< of patience
  listen_address where_; ///< of the server, as it was told
  listen_address found_; ///< of the server, as it was found
};

} // namespace mailgrad::net
