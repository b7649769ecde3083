#pragma once

#include <mailgrad/net/hello.hpp>

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <system_error>

namespace mailgrad::net {

/// What came of one try to move bytes.
struct moved {
  enum class outcome : std::uint8_t {
    some,    ///< `count` bytes went
    later,   ///< none now; there will be more when the socket is ready
    not_yet, ///< of a write: none before a read has brought what the peer says first
    ended,   ///< the peer sends no more
    failed,  ///< never again, as the words say
  };
  outcome what = outcome::later;
  std::size_t count = 0;
  bool is_all = false; ///< of a read: hardly more is there now
  std::string words{};
  /// Of a read that failed because both sides do not have the same keys. A server may still write a refusal.
  std::optional<refusal> refused{};
};

/// How bytes get on a socket and off it: as they are, or by a cipher. Nothing here waits.
/// Threads that of the network.
class byte_pipe {
public:
  virtual ~byte_pipe() = default;

  /// Reads into these places, one after the other.
  virtual moved read(std::span<const iovec> to) = 0;
  /// Writes from these places, as much as goes now.
  virtual moved write(std::span<const iovec> from) = 0;
  /// Whether the peer's keys let it serve others, as a parameter host does. Known once it has been read.
  virtual bool lets_peer_serve() const { return true; }
  /// Told when the connection is left while a write brings `not_yet`. Whether write() takes last words now.
  virtual bool give_up_greeting() { return false; }
  /// Told before anybody waits for the socket to have something to read. Whether there is input already of
  /// which the socket would not tell.
  virtual bool call_for_input() { return false; }
  /// Whether bytes of its own, or that write() took, still wait for the socket. write() of nothing sends
  /// them.
  virtual bool holds_output() const noexcept { return false; }
  /// Whether the socket tells of room for write() as it tells of input, once call_for_room() has been told.
  virtual bool tells_room_as_input() const noexcept { return false; }
  /// Of such a pipe: whether write() takes something.
  virtual bool has_room() { return true; }
  /// Told before anybody waits for room. Whether write() takes something already.
  virtual bool call_for_room() { return false; }
};

/// Bytes as they are.
class plain_pipe final : public byte_pipe {
public:
  /// The socket does not block, and outlives the pipe.
  explicit plain_pipe(int socket) noexcept : socket_(socket) {}

  moved read(std::span<const iovec> to) override {
    msghdr m = message_of(to);
    const ssize_t count = recvmsg(socket_, &m, MSG_DONTWAIT);
    if (count < 0) return failure();
    if (count == 0) return {.what = moved::outcome::ended, .words = closed};
    std::size_t room = 0;
    for (const iovec& part : to) room += part.iov_len;
    const auto got = static_cast<std::size_t>(count);
    return {.what = moved::outcome::some, .count = got, .is_all = got < room};
  }
  moved write(std::span<const iovec> from) override {
    const msghdr m = message_of(from);
    const ssize_t count = sendmsg(socket_, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) return failure();
    return {.what = moved::outcome::some, .count = static_cast<std::size_t>(count)};
  }

private:
  static constexpr const char* closed = "closed by the peer";

  static moved failure() {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {.what = moved::outcome::later};
    if (errno == EPIPE) return {.what = moved::outcome::failed, .words = closed};
    return {.what = moved::outcome::failed, .words = std::generic_category().message(errno)};
  }
  static msghdr message_of(std::span<const iovec> parts) {
    msghdr m{};
    m.msg_iov = const_cast<iovec*>(parts.data()); // POSIX has one struct for both ways
    m.msg_iovlen = parts.size();
    return m;
  }

  int socket_;
};

} // namespace mailgrad::net
