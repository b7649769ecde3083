#include <mailgrad/net/tcp/tcp_dialer.hpp>

#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/tcp/socket_options.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mailgrad::net {

namespace {

constexpr std::chrono::milliseconds longest_pause{500};

asio::steady_timer::duration for_asio(instant span) {
  return std::chrono::duration_cast<asio::steady_timer::duration>(span);
}

} // namespace

tcp_dialer::tcp_dialer(asio::io_context& io, plan p, done told)
    : io_(&io), plan_(std::move(p)), told_(std::move(told)), resolver_(io), socket_(io), clock_(io),
      until_(asio::steady_timer::clock_type::now() + for_asio(plan_.patience)) {}

void tcp_dialer::begin() {
  error_code is_name;
  if (const auto number = asio::ip::make_address(plan_.host, is_name); !is_name) {
    places_ = {tcp::endpoint(number, plan_.port)};
    return begin_trying();
  }
  if (plan_.host == "localhost") { // always both of this machine (RFC 6761), whatever its files say
    places_ = {tcp::endpoint(asio::ip::address_v6::loopback(), plan_.port),
               tcp::endpoint(asio::ip::address_v4::loopback(), plan_.port)};
    return begin_trying();
  }
  resolve();
}

/// A resolver that cannot say whether there is such a name, as while a network begins, is asked again.
void tcp_dialer::resolve() {
  look_up([self = shared_from_this()](error_code failed, const std::vector<tcp::endpoint>& places) {
    if (!self->told_) return;
    if (failed == asio::error::host_not_found_try_again && self->pause([self] { self->resolve(); })) return;
    if (failed)
      return self->give_up(fmt::format("cannot connect to {}: there is no host '{}' ({}): check the name",
                                       self->name(), self->plan_.host, failed.message()));
    self->places_ = places;
    self->begin_trying();
  });
}

void tcp_dialer::look_up(found told) {
  if (plan_.look_up) return plan_.look_up(std::move(told));
  resolver_.async_resolve(
      plan_.host, std::to_string(plan_.port), tcp::resolver::numeric_service,
      [told = std::move(told)](error_code failed, const tcp::resolver::results_type& entries) {
        std::vector<tcp::endpoint> places;
        for (const auto& entry : entries) places.push_back(entry.endpoint());
        told(failed, places);
      });
}

void tcp_dialer::begin_trying() {
  if (plan_.only_loopback)
    std::erase_if(places_, [](const tcp::endpoint& x) { return !x.address().is_loopback(); });
  if (!places_.empty()) return try_next();
  give_up(fmt::format("cannot connect to {} without keys, since others could read along: give --keys with "
                      "the server's keys, of `mailgrad keys new DIR`, or its token",
                      name()));
}

void tcp_dialer::cancel() {
  told_ = nullptr;
  error_code ignored;
  resolver_.cancel();
  clock_.cancel();
  socket_.close(ignored);
}

void tcp_dialer::try_next() {
  if (next_ == places_.size()) {
    next_ = 0;
    if (!pause([self = shared_from_this()] { self->try_next(); }))
      give_up(words_of(last_), last_ == asio::error::connection_refused);
    return;
  }
  const tcp::endpoint& to = places_[next_++];
  socket_ = tcp::socket(*io_);
  socket_.open(to.protocol(), last_);
  if (last_) return try_next();
  keep_from_children(socket_.native_handle());
  set_buffers(socket_.native_handle(),
              to.address().is_loopback() ? distance::on_this_machine : distance::on_another);
  is_late_ = false;
  clock_.expires_after(for_asio(plan_.answer));
  clock_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (cancelled || !self->told_) return;
    self->is_late_ = true;
    error_code unused;
    self->socket_.close(unused);
  });
  socket_.async_connect(to, [self = shared_from_this()](error_code failed) { self->answered(failed); });
}

void tcp_dialer::answered(error_code failed) {
  if (!told_) return;
  clock_.cancel();
  if (!failed && !is_late_) {
    const done told = std::exchange(told_, nullptr);
    return told({std::move(socket_)});
  }
  last_ = is_late_ ? error_code(asio::error::timed_out) : failed;
  try_next();
}

/// Does this after a while. False if the patience is over.
bool tcp_dialer::pause(std::function<void()> then) {
  const auto moment = asio::steady_timer::clock_type::now();
  if (moment >= until_) return false;
  clock_.expires_at(std::min(moment + pause_, until_));
  pause_ = std::min(2 * pause_, longest_pause);
  clock_.async_wait([self = shared_from_this(), then = std::move(then)](error_code cancelled) {
    if (!cancelled && self->told_) then();
  });
  return true;
}

void tcp_dialer::give_up(std::string words, bool nobody_listens) {
  const done told = std::exchange(told_, nullptr);
  told({tcp::socket(*io_), std::move(words), nobody_listens});
}

std::string tcp_dialer::name() const { return to_string(listen_address{plan_.host, plan_.port}); }

std::string tcp_dialer::words_of(error_code failed) const {
  const std::string tried =
      plan_.patience.count() > 0 ? fmt::format(", tried for {} s", in_seconds(plan_.patience)) : "";
  if (failed == asio::error::connection_refused)
    return fmt::format(
        "cannot connect to {}: nobody listens there{}: start the server, or check host and port", name(),
        tried);
  if (failed == asio::error::timed_out)
    return fmt::format(
        "cannot connect to {}: no answer within {} s{}: check the address, and that no firewall "
        "is in the way",
        name(), in_seconds(plan_.answer), tried);
  return fmt::format("cannot connect to {}: {}{}: check the address and the network", name(),
                     failed.message(), tried);
}

} // namespace mailgrad::net
