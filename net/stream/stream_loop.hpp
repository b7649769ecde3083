#pragma once

#include <utility> // before Asio 1.74, which lacks it by g++ 12

#include <mailgrad/net/server_end.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <set>

namespace mailgrad::net {

namespace asio = boost::asio;
using asio::ip::tcp;
/// A connection of whichever kind.
using stream_socket = asio::generic::stream_protocol::socket;
using boost::system::error_code;

inline asio::steady_timer::duration of_timer(instant span) {
  return std::chrono::duration_cast<asio::steady_timer::duration>(span);
}

class stream_connection;
class stream_host;

/// The turns of a network's thread: work from other threads, connections that are read again and again while
/// they are hot, and sleep until the system has something.
/// Threads that of the network, except for post().
class stream_loop {
public:
  explicit stream_loop(std::chrono::microseconds spin);
  ~stream_loop();
  stream_loop(const stream_loop&) = delete;
  stream_loop& operator=(const stream_loop&) = delete;

  /// Takes turns until stop() and until whoever leaves has left, but no longer than so much after it.
  void run();
  void stop(instant farewell) {
    stops_at_ = now() + farewell;
    end_.expires_after(of_timer(farewell));
    end_.async_wait([](error_code) {});
  }
  /// Has something done on the thread, in the order of the calls. Any thread.
  void post(std::function<void()> work);

  /// Something came or went on this connection, so it is read without waiting for a while.
  void heat(const std::shared_ptr<stream_connection>& c);
  /// The deadline of a host may have changed.
  void watch(stream_host& host) { watched_.insert(&host); }
  void unwatch(stream_host& host) { watched_.erase(&host); }
  /// Connections that no host has any more, while their last bytes leave.
  std::set<std::shared_ptr<stream_connection>>& leaving() noexcept { return leaving_; }

  asio::io_context& io() noexcept { return io_; }
  connection_id next_id() noexcept { return {next_id_++}; }
  instant now() const noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }
  /// Room for bytes that have no place yet, of whoever reads now.
  std::span<std::byte> scratch() noexcept { return scratch_; }

private:
  bool run_posted();
  bool read_hot();
  void schedule();
  void sleep();

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> keeps_running_{io_.get_executor()};
  instant spin_;
  instant awake_until_{0}, scheduled_{0};
  std::uint64_t next_id_ = 1;
  unsigned turns_ = 0;
  std::vector<std::shared_ptr<stream_connection>> hot_;
  std::set<std::shared_ptr<stream_connection>> leaving_;
  std::set<stream_host*> watched_;
  std::vector<std::byte> scratch_;
  std::vector<std::function<void()>> doing_; ///< of those that were posted
  std::optional<instant> stops_at_;
  asio::steady_timer end_{io_};

  std::mutex mutex_; ///< of the two below
  std::vector<std::function<void()>> posted_;
  bool sleeping_ = false;
};

} // namespace mailgrad::net
