#pragma once

#include <mailgrad/net/descriptor.hpp>
#include <mailgrad/net/loan.hpp>
#include <mailgrad/net/memory/region_offer.hpp>
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
#include <vector>

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

/// Who has connected. None if nobody has, or there is no descriptor left; then `errno` says so.
descriptor accepted_at(int listener) noexcept;

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

/// One endpoint on a network of shared memory: who makes its connections.
///
/// Threads that of the network.
class memory_host final : public stream_host {
public:
  memory_host(stream_loop& loop, server_end& server) : stream_host(loop, server) {}
  memory_host(stream_loop& loop, client_end& client) : stream_host(loop, client) {}

  /// The name under which it listens.
  /// Errors  std::system_error.
  std::string listen(const std::string& name);
  void connect(const std::string& name, instant patience);

private:
  void begin_dialling(connection_id id, plane p, instant patience) override;
  void stop_making() override;
  std::string server_name() const override;

  void begin_talk(connection_id id, plane p, memory_dialer::outcome found);
  void take_in(stream_socket socket);
  void turn_away(stream_socket socket, std::string found);
  std::shared_ptr<memory_host> self() { return std::static_pointer_cast<memory_host>(shared_from_this()); }

  std::vector<std::shared_ptr<memory_listener>> listeners_;
  std::shared_ptr<memory_dialer> dialer_;
  const std::shared_ptr<far_pages> pages_ = std::make_shared<far_pages>(); ///< of all peers of a server
  std::string name_;                                                       ///< of the server, as it was told
};

} // namespace mailgrad::net
