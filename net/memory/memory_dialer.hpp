#pragma once

#include <mailgrad/net/memory/region_offer.hpp>
#include <mailgrad/net/stream/asio.hpp>
#include <mailgrad/net/timing.hpp>

#include <functional>
#include <memory>
#include <string>

namespace mailgrad::net {

/// One try after the other to connect to a server of this machine, and again after a pause as long as nobody
/// listens there; then it waits for the memory that the server offers.
///
/// Threads that of the network.
class memory_dialer final : public std::enable_shared_from_this<memory_dialer> {
public:
  struct plan {
    std::string name;    ///< of the server
    instant patience{0}; ///< tries again for so long
    instant answer{0};   ///< waits so long for the offer
  };
  /// What became of it: a connection that stands, or words that say why there is none.
  struct outcome {
    stream_socket socket;
    offered memory{};
    std::string words{};
    bool nobody_listens = false;
  };
  /// Called once.
  using done = std::function<void(outcome)>;

  memory_dialer(asio::io_context& io, plan p, done told);

  void begin() { try_now(); }
  /// Nobody is told anything more.
  void cancel();

private:
  void try_now();
  void pause(int failed);
  void wait_for_offer();
  void look_at_offer();
  void give_up(const std::string& words, bool nobody_listens = false);
  std::string words_of(int failed) const;

  plan plan_;
  done told_;
  stream_socket socket_;
  asio::steady_timer clock_;
  asio::steady_timer::time_point until_;
  std::chrono::milliseconds pause_{25};
};

} // namespace mailgrad::net
