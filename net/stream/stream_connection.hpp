#pragma once

#include <mailgrad/net/stream/byte_pipe.hpp>
#include <mailgrad/net/stream/stream_loop.hpp>

#include <list>

namespace mailgrad::net {

/// The frames of a connection that are on their way to the socket, gathered so that one call sends several of
/// them without a copy.
/// Threads that of the network.
class outbox {
public:
  /// A batch of pieces of a body is read twice, once for its checksum and once by the socket, so it is small
  /// enough to stay in a cache meanwhile.
  static constexpr std::size_t most_bytes = 512 << 10;
  static constexpr std::size_t most_frames = 64;

  bool empty() const noexcept { return frames_.empty(); }
  bool has_room() const noexcept { return frames_.size() < most_frames && bytes_ < most_bytes; }
  void push(outgoing frame) {
    bytes_ += size_of(frame);
    frames_.push_back(std::move(frame));
  }
  /// Where the unsent bytes lie, in order: the first of `parts`, two for a frame.
  std::span<const iovec> gather(std::span<iovec> parts) const;
  /// So many of these bytes have gone.
  void sent(std::size_t count);
  void clear() noexcept {
    frames_.clear();
    begun_ = bytes_ = 0;
  }

private:
  static std::size_t size_of(const outgoing& frame) { return frame.header.size() + frame.content().size(); }

  std::deque<outgoing> frames_;
  std::size_t begun_ = 0; ///< bytes of the first frame that have gone
  std::size_t bytes_ = 0; ///< of all frames
};

/// One connection: its socket, what it shall still send, and the host whose it is. Without a host it leaves:
/// it sends what is left, reads until the peer has closed too, and then closes.
/// Threads that of the network.
class stream_connection final : public std::enable_shared_from_this<stream_connection> {
public:
  stream_connection(connection_id id, stream_loop& loop, stream_socket socket,
                    std::unique_ptr<byte_pipe> bytes)
      : id_(id), loop_(&loop), socket_(std::move(socket)), end_(loop.io()), bytes_(std::move(bytes)) {}

  connection_id id() const noexcept { return id_; }
  bool is_open() const noexcept { return socket_.is_open(); }
  int native() { return socket_.native_handle(); }
  byte_pipe& bytes() noexcept { return *bytes_; }

  /// Reads a turn's worth. Whether anything came.
  bool turn();
  /// Sends what is gathered. False if some of it is left, since the socket takes no more now.
  bool send();
  /// Has the host read as soon as there is something, unless it is told so anyway.
  void wait_readable();
  /// Has the host go on sending as soon as the socket takes something.
  void wait_writable();
  /// Has the host look for input as soon as it can, without a word of the socket.
  void look_soon();
  /// Whether the socket takes no more until the system says otherwise.
  bool is_blocked() const noexcept { return is_blocked_; }

  /// Belongs to no host any more.
  void leave(instant farewell);
  void close();

  stream_host* host = nullptr;
  outbox out;
  std::string words_of_failure; ///< what the system said when it took no more to send
  bool speaks = false;          ///< has sent a frame
  bool is_heard = false;        ///< a byte of a frame has come
  bool is_hot = false;
  bool is_held = false;   ///< the host does not read it until it is called
  bool is_called = false; ///< its turn has come
  std::list<std::shared_ptr<stream_connection>>::iterator place_among_held{};
  instant hot_until{0};

private:
  void leave_nothing();
  void look();

  connection_id id_;
  stream_loop* loop_;
  stream_socket socket_;
  asio::steady_timer end_;
  std::unique_ptr<byte_pipe> bytes_;
  bool is_waiting_ = false; ///< for the socket to have something to read
  bool looks_soon_ = false; ///< is told to look, without a word of the socket
  bool is_blocked_ = false;
  bool is_shut_ = false; ///< sends no more
};

} // namespace mailgrad::net
