#include <mailgrad/net/memory/memory_listener.hpp>

#include <mailgrad/net/memory/unix_socket.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace mailgrad::net {

namespace {

constexpr std::chrono::milliseconds pause_without_memory{100};
constexpr int most_free_names = 4096;

/// Listens under a name that nobody has, which is made of the number of this process.
descriptor listening_anywhere(std::string& name) {
  for (int n = 0;; ++n) try {
      name = fmt::format("{}-{}", getpid(), n);
      return listening_at(name);
    } catch (const std::system_error& e) {
      if (e.code().value() != EADDRINUSE || n == most_free_names) throw;
    }
}

} // namespace

memory_listener::memory_listener(asio::io_context& io, std::string name, took told)
    : acceptor_(io), retry_(io), name_(std::move(name)), told_(std::move(told)) {
  descriptor socket = name_.empty() ? listening_anywhere(name_) : listening_at(name_);
  acceptor_.assign(asio::local::stream_protocol(), socket.release());
}

void memory_listener::begin() {
  acceptor_.async_wait(asio::socket_base::wait_read, [self = shared_from_this()](error_code failed) {
    if (!failed && self->acceptor_.is_open()) self->take_one();
  });
}

void memory_listener::take_one() {
  descriptor socket = accepted_at(acceptor_.native_handle());
  if (!socket && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) return later();
  if (socket) {
    stream_socket taken(acceptor_.get_executor());
    taken.assign(asio::generic::stream_protocol(asio::local::stream_protocol()), socket.release());
    told_(std::move(taken));
  }
  if (acceptor_.is_open()) begin();
}

/// As long as the process has no free descriptor, accepting fails at once, again and again.
void memory_listener::later() {
  retry_.expires_after(pause_without_memory);
  retry_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (!cancelled && self->acceptor_.is_open()) self->begin();
  });
}

void memory_listener::close() {
  error_code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
}

} // namespace mailgrad::net
