#include <mailgrad/net/tcp/tcp_listener.hpp>

#include <mailgrad/net/tcp/socket_options.hpp>

#include <fmt/format.h>

#include <sys/resource.h>

#include <system_error>

namespace mailgrad::net {

namespace {

constexpr std::chrono::milliseconds pause_without_descriptors{100};
constexpr rlim_t kept_descriptors = 64; // for checkpoints, recordings and whatever else the process opens

/// The system gives the lowest number that is free.
bool is_of_the_last(int descriptor) {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         static_cast<rlim_t>(descriptor) + kept_descriptors >= limit.rlim_cur;
}

} // namespace

tcp_listener::tcp_listener(asio::io_context& io, const listen_address& where, took told)
    : acceptor_(io), retry_(io), address_(where), told_(std::move(told)) {
  const tcp::endpoint at(asio::ip::make_address(where.host), where.port);
  error_code failed;
  acceptor_.open(at.protocol(), failed);
  if (!failed) keep_from_children(acceptor_.native_handle());
  if (!failed) acceptor_.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) set_buffers(acceptor_.native_handle(), distance::on_another); // connections take them over
  if (!failed) acceptor_.bind(at, failed);
  if (!failed) acceptor_.listen(asio::socket_base::max_listen_connections, failed);
  if (failed)
    throw std::system_error(failed.value(), std::generic_category(),
                            fmt::format("cannot listen at {}", to_string(where)));
  address_.port = acceptor_.local_endpoint().port();
}

void tcp_listener::begin() {
  acceptor_.async_accept([self = shared_from_this()](error_code failed, tcp::socket socket) {
    if (!self->acceptor_.is_open()) return;
    if (failed) return self->later();
    if (is_of_the_last(socket.native_handle())) { // closes it
      socket.close(failed);
      return self->begin();
    }
    keep_from_children(socket.native_handle());
    error_code gone;
    if (socket.remote_endpoint(gone).address().is_loopback())
      set_buffers(socket.native_handle(), distance::on_this_machine);
    self->told_(std::move(socket));
    self->begin();
  });
}

/// As long as the process has no free descriptor, accepting fails at once, again and again.
void tcp_listener::later() {
  retry_.expires_after(pause_without_descriptors);
  retry_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (!cancelled && self->acceptor_.is_open()) self->begin();
  });
}

void tcp_listener::close() {
  error_code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
}

} // namespace mailgrad::net
