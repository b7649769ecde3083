#include <mailgrad/net/http/http_server.hpp>

#include <mailgrad/net/http/http_connection.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <fmt/format.h>

#include <atomic>
#include <set>
#include <system_error>
#include <thread>

namespace mailgrad {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds longest_end{1000};
constexpr std::chrono::milliseconds pause_before_next_try{100};

tcp::acceptor listening_at(asio::io_context& io, const listen_address& where) {
  const tcp::endpoint at(asio::ip::make_address(where.host), where.port);
  tcp::acceptor acceptor(io);
  error_code failed;
  acceptor.open(at.protocol(), failed);
  if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor.bind(at, failed);
  if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
  if (failed)
    throw std::system_error(failed.value(), std::generic_category(),
                            fmt::format("cannot listen at {}", to_string(where)));
  return acceptor;
}

} // namespace

class http_server::implementation {
public:
  implementation(const listen_address& where, const http_limits& limits)
      : limits_(limits),
        acceptor_(listening_at(io_, where)), address_{where.host, acceptor_.local_endpoint().port()} {}
  ~implementation() {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] { finish(); });
    thread_.join();
    clients_.clear(); // their sockets belong to io_
  }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;

  void serve(http_handler answer) {
    answer_ = std::move(answer);
    accept();
    beat();
    thread_ = std::thread([this] { io_.run(); });
  }
  const listen_address& address() const noexcept { return address_; }
  std::size_t viewers() const noexcept { return viewers_.load(); }

  void publish(std::string event) {
    asio::post(io_, [this, shared = std::make_shared<const std::string>(std::move(event))] { push(shared); });
  }

private:
  void accept() {
    acceptor_.async_accept([this](error_code failed, tcp::socket socket) {
      if (finishing_) return;
      if (failed) return accept_later();
      take(std::move(socket));
      accept();
    });
  }

  /// As long as the process has no free descriptor, accepting fails at once, again and again.
  void accept_later() {
    retry_.expires_after(pause_before_next_try);
    retry_.async_wait([this](error_code cancelled) {
      if (!cancelled) accept();
    });
  }

  void take(tcp::socket socket) {
    error_code ignored;
    if (clients_.size() >= limits_.connections) {
      constexpr std::string_view busy = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: "
                                        "5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(busy), ignored);
      return;
    }
    socket.set_option(tcp::no_delay(true), ignored);
    const auto client = std::make_shared<http_connection>(
        std::move(socket),
        http_connection::options{answer_, limits_, [this](http_connection&) { ++viewers_; },
                                 [this](http_connection& x) { forget(x); }});
    clients_.insert(client);
    client->begin();
  }

  void forget(http_connection& x) {
    if (x.is_streaming()) --viewers_;
    clients_.erase(x.shared_from_this());
    if (finishing_ && clients_.empty()) io_.stop();
  }

  /// Each of a copy, because one that is cut off leaves the set.
  void push(const std::shared_ptr<const std::string>& event) {
    for (const auto& client : std::set(clients_))
      if (client->is_streaming()) client->push(event);
  }

  void beat() {
    beat_.expires_after(limits_.beat);
    beat_.async_wait([this](error_code cancelled) {
      if (cancelled) return;
      push(std::make_shared<const std::string>(":\n\n")); // a comment
      beat();
    });
  }

  void finish() {
    finishing_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    beat_.cancel();
    retry_.cancel();
    for (const auto& client : std::set(clients_)) client->finish();
    if (clients_.empty()) return io_.stop();
    retry_.expires_after(longest_end);
    retry_.async_wait([this](error_code) { io_.stop(); });
  }

  http_handler answer_;
  http_limits limits_;
  std::set<std::shared_ptr<http_connection>> clients_;
  std::atomic<std::size_t> viewers_{0};
  bool finishing_ = false;
  asio::io_context io_{1}; ///< destroyed before what its handlers refer to
  tcp::acceptor acceptor_;
  listen_address address_;
  asio::steady_timer beat_{io_};
  asio::steady_timer retry_{io_};
  std::thread thread_;
};

http_server::http_server(const listen_address& where, const http_limits& limits)
    : self_(std::make_unique<implementation>(where, limits)) {}
http_server::~http_server() = default;
http_server::http_server(http_server&&) noexcept = default;
http_server& http_server::operator=(http_server&&) noexcept = default;

void http_server::serve(http_handler answer) { self_->serve(std::move(answer)); }
const listen_address& http_server::address() const noexcept { return self_->address(); }
std::size_t http_server::viewers() const noexcept { return self_->viewers(); }
void http_server::publish(std::string event) { self_->publish(std::move(event)); }

} // namespace mailgrad
