#pragma once

#include <mailgrad/net/descriptor.hpp>
#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/loan.hpp>
#include <mailgrad/net/memory/shared_heap.hpp>
#include <mailgrad/net/memory/shared_region.hpp>
#include <mailgrad/net/stream/asio.hpp>
#include <mailgrad/net/stream/byte_pipe.hpp>
#include <mailgrad/net/stream/stream_host.hpp>
#include <mailgrad/net/timing.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

// Abstract Unix sockets: their names stand in no file system, and are free again when nobody listens. Every
// descriptor is closed in programs that this one starts, since a copy there would keep a connection open.

namespace mailgrad::net {

/// A socket at which processes of this machine connect, under this name.
///
/// Errors  std::system_error; the code is EADDRINUSE if the name is taken.
descriptor listening_at(const std::string& name);

/// A socket that is connected to whoever listens under this name. `failed` is 0 then, or the error.
struct dialled {
  descriptor socket{};
  int failed = 0;
};
dialled connected_to(const std::string& name);

/// The heaps of both processes of one connection.
class peer_memory final : public common_memory {
public:
  /// `own` is null if this process lends nothing.
  explicit peer_memory(std::shared_ptr<shared_heap> own,
                       std::shared_ptr<far_pages> pages = std::make_shared<far_pages>()) noexcept
      : own_(std::move(own)), pages_(std::move(pages)) {}

  /// The peer's heap has come. Further ones are ignored.
  void take(descriptor heap) {
    if (!heap_ && !far_) heap_ = std::move(heap);
  }
  /// How to look whether it has; null: it will not come any more.
  void ask_by(std::function<void()> look) noexcept { look_ = std::move(look); }

  std::optional<lending> lend(byte_view from) override { return own_ ? own_->lend(from) : std::nullopt; }
  void abandon(lending l, std::shared_ptr<const void> keeps) override {
    own_->abandon(std::move(l), std::move(keeps));
  }
  borrowed borrow(const loan& l) override;

private:
  std::shared_ptr<shared_heap> own_;
  std::shared_ptr<far_pages> pages_;
  std::function<void()> look_;
  descriptor heap_; ///< until it is used
  std::optional<far_heap> far_;
};

/// One try after the other to connect to a server of this machine, and again after a pause as long as nobody
/// listens there; then it waits for the memory that the server offers.
///
/// Threads that of the network.
class memory_dialer final : public connection_maker, public std::enable_shared_from_this<memory_dialer> {
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

  void begin() override { try_now(); }
  void stop() override;

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

/// One endpoint on a network of shared memory: who makes its connections.
///
/// Threads that of the network.
class memory_host final : public stream_host {
public:
  using stream_host::stream_host;

  std::string listen(const std::string& address) override;
  void aim_at(const std::string& address) override { name_ = parse_memory_server_address(address); }

private:
  std::shared_ptr<connection_maker> dialer_for(connection_id id, plane p, instant patience) override;
  std::string server_name() const override;

  void begin_talk(connection_id id, plane p, memory_dialer::outcome found);
  void take_in(stream_socket socket);
  void turn_away(stream_socket socket, std::string found);
  std::shared_ptr<memory_host> self() { return std::static_pointer_cast<memory_host>(shared_from_this()); }

  const std::shared_ptr<far_pages> pages_ = std::make_shared<far_pages>(); ///< of all peers of a server
  std::string name_;                                                       ///< of the client's server
};

} // namespace mailgrad::net
