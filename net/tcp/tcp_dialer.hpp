#pragma once

#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/stream/stream_host.hpp>

namespace mailgrad::net {

/// One try after the other to connect to a server: at each address that its name has, and again after a pause
/// as long as nobody listens there, or nobody can say now whether there is such a name.
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

  tcp_dialer(asio::io_context& io, plan p, done told)
      : io_(&io), plan_(std::move(p)), told_(std::move(told)), resolver_(io), socket_(io), clock_(io),
        until_(asio::steady_timer::clock_type::now() + of_timer(plan_.patience)) {}

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
  std::string name() const { return to_string(listen_address{plan_.host, plan_.port}); }

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

} // namespace mailgrad::net
