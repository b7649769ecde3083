#include <mailgrad/net/memory/memory_dialer.hpp>

#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/memory/memory_address.hpp>
#include <mailgrad/net/memory/unix_socket.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace mailgrad::net {

namespace {

constexpr std::chrono::milliseconds longest_wait{500};

asio::steady_timer::duration of_timer(instant span) {
  return std::chrono::duration_cast<asio::steady_timer::duration>(span);
}

} // namespace

memory_dialer::memory_dialer(asio::io_context& io, plan p, done told)
    : plan_(std::move(p)), told_(std::move(told)), socket_(io), clock_(io),
      until_(asio::steady_timer::clock_type::now() + of_timer(plan_.patience)) {}

void memory_dialer::cancel() {
  told_ = nullptr;
  error_code ignored;
  clock_.cancel();
  socket_.close(ignored);
}

void memory_dialer::try_now() {
  dialled found = connected_to(plan_.name);
  if (found.failed != 0) return pause(found.failed);
  const auto user = user_of_peer(found.socket.number());
  if (user != geteuid())
    return give_up(fmt::format("cannot connect to {}: expected a server of user {}, found one of {}: join as "
                               "that user, or use HOST:PORT with keys",
                               memory_address(plan_.name), geteuid(),
                               user ? fmt::format("user {}", *user) : "no user"));
  socket_.assign(asio::generic::stream_protocol(asio::local::stream_protocol()), found.socket.release());
  clock_.expires_after(of_timer(plan_.answer));
  clock_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (cancelled || !self->told_) return;
    self->give_up(fmt::format("no answer from {} within {} s: expected a server of Mailgrad there",
                              memory_address(self->plan_.name), in_seconds(self->plan_.answer)));
  });
  wait_for_offer();
}

void memory_dialer::wait_for_offer() {
  socket_.async_wait(stream_socket::wait_read, [self = shared_from_this()](error_code failed) {
    if (!failed && self->told_) self->look_at_offer();
  });
}

void memory_dialer::look_at_offer() try {
  auto found = take_offer(socket_.native_handle());
  if (!found) return wait_for_offer();
  clock_.cancel();
  const done told = std::exchange(told_, nullptr);
  told({std::move(socket_), std::move(*found)});
} catch (const protocol_error& e) {
  give_up(fmt::format("{} did not take us in ({}): expected a server of Mailgrad there",
                      memory_address(plan_.name), e.what()));
} catch (const std::system_error& e) {
  give_up(fmt::format("cannot connect to {}: {}", memory_address(plan_.name), e.what()));
}

void memory_dialer::pause(int failed) {
  const auto moment = asio::steady_timer::clock_type::now();
  if (moment >= until_) return give_up(words_of(failed), failed == ECONNREFUSED);
  clock_.expires_at(std::min(moment + pause_, until_));
  pause_ = std::min(2 * pause_, longest_wait);
  clock_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (!cancelled && self->told_) self->try_now();
  });
}

void memory_dialer::give_up(const std::string& words, bool nobody_listens) {
  const done told = std::exchange(told_, nullptr);
  error_code ignored;
  clock_.cancel();
  socket_.close(ignored);
  told({stream_socket(socket_.get_executor()), {}, words, nobody_listens});
}

std::string memory_dialer::words_of(int failed) const {
  const std::string tried =
      plan_.patience.count() > 0 ? fmt::format(", tried for {} s", in_seconds(plan_.patience)) : "";
  const std::string what =
      failed == ECONNREFUSED ? "nobody listens there" : std::generic_category().message(failed);
  return fmt::format("cannot connect to {}: {}{}: start the server on this machine, or check the name",
                     memory_address(plan_.name), what, tried);
}

} // namespace mailgrad::net
