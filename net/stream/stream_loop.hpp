#pragma once

#include <mailgrad/net/endpoint.hpp>
#include <mailgrad/net/stream/asio.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace mailgrad::net {

class stream_connection;
class stream_host;

/// The turns of a network's thread: work from other threads, connections that are read again and again while
/// they are hot, and sleep until the system has something.
///
/// Threads that of the network, except for post().
class stream_loop {
public:
  explicit stream_loop(std::chrono::microseconds spin);
  ~stream_loop();
  stream_loop(const stream_loop&) = delete;
  stream_loop& operator=(const stream_loop&) = delete;

  /// Takes turns until stop() and until whoever leaves has left, but no longer than so much after it.
  void run();
  void stop(instant farewell);
  /// Has something done on the thread, in the order of the calls. Any thread.
  void post(std::function<void()> work);

  /// Something came or went on this connection, so it is read without waiting for a while.
  void heat(const std::shared_ptr<stream_connection>& c);
  /// The deadline of a host may have changed.
  void watch(stream_host& host);
  void unwatch(stream_host& host);
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
  bool is_done() const;

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> keeps_running_{io_.get_executor()};
  instant spin_;
  instant awake_until_{0};
  instant scheduled_{0};
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
