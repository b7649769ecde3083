#include <mailgrad/net/stream/byte_pipe.hpp>

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace mailgrad::net {

namespace {

constexpr const char* closed = "closed by the peer";

moved failure() {
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {.what = moved::outcome::later};
  if (errno == EPIPE) return {.what = moved::outcome::failed, .words = closed};
  return {.what = moved::outcome::failed, .words = std::generic_category().message(errno)};
}

msghdr message_of(std::span<const iovec> parts) {
  msghdr m{};
  m.msg_iov = const_cast<iovec*>(parts.data()); // POSIX has one struct for both ways
  m.msg_iovlen = parts.size();
  return m;
}

} // namespace

moved plain_pipe::read(std::span<const iovec> to) {
  msghdr m = message_of(to);
  const ssize_t count = recvmsg(socket_, &m, MSG_DONTWAIT);
  if (count < 0) return failure();
  if (count == 0) return {.what = moved::outcome::ended, .words = closed};
  std::size_t room = 0;
  for (const iovec& part : to) room += part.iov_len;
  const auto got = static_cast<std::size_t>(count);
  return {.what = moved::outcome::some, .count = got, .is_all = got < room};
}

moved plain_pipe::write(std::span<const iovec> from) {
  const msghdr m = message_of(from);
  const ssize_t count = sendmsg(socket_, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count < 0) return failure();
  return {.what = moved::outcome::some, .count = static_cast<std::size_t>(count)};
}

} // namespace mailgrad::net
