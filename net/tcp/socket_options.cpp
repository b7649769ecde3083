#include <mailgrad/net/tcp/socket_options.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>

namespace mailgrad::net {

namespace {

constexpr int buffer_bytes = 4 << 20;   // else a receiver's buffer grows up to 32 MiB a connection
constexpr int unsent_bytes = 256 << 10; // a piece

void set(int socket, int level, int option, int value) noexcept {
  (void)setsockopt(socket, level, option, &value, sizeof value);
}

} // namespace

void set_buffers(int socket) noexcept {
  set(socket, SOL_SOCKET, SO_RCVBUF, buffer_bytes);
  set(socket, SOL_SOCKET, SO_SNDBUF, buffer_bytes);
}

void set_latency(int socket, const timing& times) noexcept {
  using std::chrono::milliseconds;
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, unsent_bytes);
  const auto silence = std::chrono::duration_cast<milliseconds>(times.silence()).count();
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silence));
}

} // namespace mailgrad::net
