#include <mailgrad/net/tcp/tcp_dialer.hpp>

#include <mailgrad/net/tcp/tcp_network.hpp>
#include <mailgrad/net/tls/tls_pipe.hpp>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

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

/// How much of each connection the kernel holds. Told before it stands, since the largest window is agreed on
/// at its begin; it may be made less later. A kernel that refuses an option goes on without it.
void set_buffers(int socket, int size) noexcept {
  set(socket, SOL_SOCKET, SO_RCVBUF, size);
  set(socket, SOL_SOCKET, SO_SNDBUF, size);
}

/// Small frames go at once, and no more than is needed waits in the kernel.
void set_latency(int socket) noexcept {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, unsent_bytes);
}

/// A peer that confirms nothing, or takes nothing, is given up after the longest silence that a session
/// allows.
void set_patience(int socket, const timing& times) noexcept {
  using std::chrono::milliseconds;
  const auto patience = std::chrono::duration_cast<milliseconds>(times.patience()).count();
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(patience));
}

/// A program that this process starts does not get the socket. Else a listener, or a connection, would stay
/// open for its peers when this process is gone.
void keep_from_children(int socket) noexcept { (void)fcntl(socket, F_SETFD, FD_CLOEXEC); }

constexpr std::chrono::milliseconds longest_pause{500};

constexpr rlim_t kept_descriptors = 64; // for checkpoints, recordings and whatever else the process opens

/// The system gives the lowest number that is free.
bool is_of_the_last(int number) {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         static_cast<rlim_t>(number) + kept_descriptors >= limit.rlim_cur;
}

/// A socket that listens there, with the port that was free.
descriptor listening_at(asio::io_context& io, listen_address& where) {
  const tcp::endpoint at(asio::ip::make_address(where.host), where.port);
  tcp::acceptor acceptor(io);
  error_code failed;
  acceptor.open(at.protocol(), failed);
  if (!failed) keep_from_children(acceptor.native_handle());
  if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor.native_non_blocking(true, failed);
  if (!failed) set_buffers(acceptor.native_handle(), far_buffer_bytes); // connections take them over
  if (!failed) acceptor.bind(at, failed);
  if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
  if (failed)
    throw std::system_error(failed.value(), std::generic_category(),
                            fmt::format("cannot listen at {}", to_string(where)));
  where.port = acceptor.local_endpoint().port();
  return descriptor(acceptor.release());
}

constexpr std::chrono::milliseconds pause_before_another{200};

/// One endpoint on a network of TCP: who makes its connections.
/// Threads that of the network.
class tcp_host final : public stream_host {
public:
  tcp_host(stream_loop& loop, server_end* server, client_end* client, const tcp_options& options)
      : stream_host(loop, server, client), keys_(options.keys), again_(loop.io()), on_wait_(options.on_wait) {
  }

  /// A connection is closed at once where the process has few descriptors left.
  std::string listen(const std::string& address) override {
    listen_address where = parse_listen_address(address);
    if (!keys_ && !where.is_loopback())
      throw std::invalid_argument(fmt::format(
          "cannot listen at {} without keys, since anybody could join: give --keys DIR (`mailgrad keys "
          "new DIR` makes it), or listen at 127.0.0.1",
          address));
    const tcp family = asio::ip::make_address(where.host).is_v6() ? tcp::v6() : tcp::v4();
    take_at(listening_at(loop().io(), where), [host = self(), family](descriptor taken) {
      if (host->is_forgotten() || is_of_the_last(taken.number())) return;
      tcp::socket socket(host->loop().io());
      error_code failed;
      socket.assign(family, taken.number(), failed);
      if (failed) return;
      taken.release();
      if (socket.remote_endpoint(failed).address().is_loopback())
        set_buffers(socket.native_handle(), near_buffer_bytes);
      host->stand(host->loop().next_id(), std::move(socket));
    });
    return to_string(where);
  }
  void aim_at(const std::string& address) override { where_ = parse_server_address(address); }
  /// Tries for so long where nobody listens, and where connections are closed before a byte comes, as by a
  /// tunnel whose far end is not there yet.
  void connect(instant patience) override {
    patience_ = patience;
    until_ = loop().now() + patience;
    dial(patience);
  }

private:
  std::shared_ptr<connection_maker> dialer_for(connection_id id, plane p, instant patience) override {
    // A name may mean several machines, and both connections lead to one.
    const listen_address& to = p == plane::bulk ? found_ : where_;
    return std::make_shared<tcp_dialer>(
        loop().io(), tcp_dialer::plan{to.host, to.port, patience, times().hello(), keys_ == nullptr},
        [host = self(), id](tcp_dialer::outcome found) {
          if (found.nobody_listens) return host->find_nobody(found.words);
          if (!found.words.empty()) return host->fail(id, found.words);
          error_code gone;
          const tcp::endpoint peer = found.socket.remote_endpoint(gone);
          host->found_ = {peer.address().to_string(), peer.port()};
          host->stand(id, std::move(found.socket));
        });
  }
  std::string server_name() const override { return to_string(where_); }

  /// Words of a server, such as a refusal, are no closing without a word.
  bool tries_again(const moved& last) override {
    const bool is_wordless = last.what == moved::outcome::ended ||
                             (last.what == moved::outcome::failed && !last.refused && !keys_);
    if (!is_wordless || loop().now() >= until_) return false;
    if (const auto tell = std::exchange(on_wait_, nullptr))
      tell(fmt::format(
          "{} takes connections and closes them, as a tunnel does whose far end is not there yet; "
          "it tries again for {} s",
          server_name(), in_seconds(patience_)));
    again_.expires_after(pause_before_another);
    again_.async_wait([host = self()](error_code cancelled) {
      if (cancelled || host->is_forgotten()) return;
      host->dial(std::max(instant{0}, host->until_ - host->loop().now()));
    });
    return true;
  }
  std::string early_end_words(const moved& last) const override {
    if (last.refused)
      return fmt::format("{}: {}{}", server_name(), last.refused->words(), advice_on(*last.refused));
    if (last.what == moved::outcome::failed && keys_) return fmt::format("{}: {}", server_name(), last.words);
    return stream_host::early_end_words(last) + (loop().now() >= until_ ? words_of_patience(patience_) : "");
  }

  void stand(connection_id id, tcp::socket socket) {
    set_latency(socket.native_handle());
    // A server may not take a body for a while, and the control connection then says that it lives.
    if (!client() || !client()->is_bulk(id)) set_patience(socket.native_handle(), times());
    // A client knows the server's times when it makes its second connection.
    for (const auto& [other, x] : connections())
      if (client() && !client()->is_bulk(other)) set_patience(x->native(), times());
    error_code gone;
    const tcp::endpoint peer = socket.remote_endpoint(gone);
    const std::string from =
        gone ? "an address that is gone" : to_string(listen_address{peer.address().to_string(), peer.port()});
    auto pipe = make_pipe(socket.native_handle());
    open(id, from, std::move(socket), std::move(pipe));
  }
  std::unique_ptr<byte_pipe> make_pipe(int socket) const {
    if (!keys_) return std::make_unique<plain_pipe>(socket);
    return std::make_unique<tls_pipe>(socket, keys_,
                                      server() ? tls_pipe::side::server : tls_pipe::side::client,
                                      tls_pipe::usual_bytes_a_key, buffers_);
  }
  std::shared_ptr<tcp_host> self() { return std::static_pointer_cast<tcp_host>(shared_from_this()); }

  const std::shared_ptr<const tls_keys> keys_; ///< null: its connections are plain
  const std::shared_ptr<tls_buffers> buffers_ = std::make_shared<tls_buffers>();
  asio::steady_timer again_;
  std::function<void(std::string)> on_wait_; ///< told once
  instant patience_{0};
  instant until_{0};     ///< of patience
  listen_address where_; ///< of the server, as it was told
  listen_address found_; ///< of the server, as it was found
};

} // namespace

tcp_network::tcp_network(const tcp_options& options)
    : stream_network("tcp", options.spin, options.patience,
                     [options](stream_loop& loop, server_end* server, client_end* client) {
                       return std::make_shared<tcp_host>(loop, server, client, options);
                     }) {}

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

void tcp_dialer::stop() {
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
  set_buffers(socket_.native_handle(), to.address().is_loopback() ? near_buffer_bytes : far_buffer_bytes);
  is_late_ = false;
  clock_.expires_after(of_timer(plan_.answer));
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

std::string tcp_dialer::words_of(error_code failed) const {
  const std::string tried = words_of_patience(plan_.patience);
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
