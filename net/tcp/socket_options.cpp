#include <mailgrad/net/tcp/socket_options.hpp>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>

namespace mailgrad::net {

namespace {

// For a window that keeps a long line busy. Left alone, a receiver's buffer grows up to 32 MiB a connection.
constexpr int far_buffer_bytes = 4 << 20;
// On one machine what is under way shall stay in the processor's cache: more than a piece only costs time.
constexpr int near_buffer_bytes = 256 << 10;
constexpr int unsent_bytes = 256 << 10; // a piece

void set(int socket, int level, int option, int value) noexcept {
  (void)setsockopt(socket, level, option, &value, sizeof value);
}

} // namespace

void set_buffers(int socket, distance d) noexcept {
  const int size = d == distance::on_this_machine ? near_buffer_bytes : far_buffer_bytes;
  set(socket, SOL_SOCKET, SO_RCVBUF, size);
  set(socket, SOL_SOCKET, SO_SNDBUF, size);
}

void set_latency(int socket) noexcept {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, unsent_bytes);
}

void set_patience(int socket, const timing& times) noexcept {
  using std::chrono::milliseconds;
  const auto patience = std::chrono::duration_cast<milliseconds>(times.patience()).count();
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(patience));
}

void keep_from_children(int socket) noexcept { (void)fcntl(socket, F_SETFD, FD_CLOEXEC); }

} // namespace mailgrad::net
