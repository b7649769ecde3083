#include <mailgrad/net/http/http_server.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <deque>
#include <exception>
#include <set>
#include <system_error>
#include <thread>
#include <utility> // Asio 1.74 lacks it (asio#944)

namespace mailgrad {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds longest_end{1000}, longest_drain{1000};
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

std::string small_letters(beast::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return small;
}

http_request request_of(const http::request<http::string_body>& x) {
  http_request asked;
  asked.method = std::string(x.method_string());
  const std::string target(x.target());
  const std::size_t mark = target.find('?');
  asked.path = target.substr(0, mark);
  if (mark != std::string::npos) asked.query = target.substr(mark + 1);
  for (const auto& field : x) {
    std::string& value = asked.fields[small_letters(field.name_string())];
    value += (value.empty() ? "" : ", ") + std::string(field.value());
  }
  asked.body = x.body();
  return asked;
}

} // namespace

/// One client of an http_server.
///
///     reading --request--> answering --written--> reading
///                             \--stream--> streaming
/// Guarantees  on_end is called once, when nothing more will be read or written.
/// Threads     the server's.
class http_connection : public std::enable_shared_from_this<http_connection> {
public:
  struct options {
    const http_handler& answer; ///< these outlive the connection
    const http_limits& limits;
    std::function<void()> on_stream; ///< called when this client takes events from now on
    std::function<void(http_connection&)> on_end;
  };

  http_connection(tcp::socket socket, options o)
      : stream_(std::move(socket)), options_(std::move(o)),
        buffer_(options_.limits.header_bytes + options_.limits.body_bytes) {}

  bool is_streaming() const noexcept { return streaming_; }

  /// Reads a request and answers it.
  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(options_.limits.header_bytes));
    parser_->body_limit(options_.limits.body_bytes);
    stream_.expires_after(options_.limits.patience); // for all of the request
    http::async_read(stream_, buffer_, *parser_,
                     [me = shared_from_this()](error_code failed, std::size_t) { me->on_read(failed); });
  }

  /// Sends this to a stream, or cuts it off if it is too far behind.
  void push(const std::shared_ptr<const std::string>& event) {
    if (ended_ || finishing_) return;
    if (queued_ > options_.limits.queued_bytes) return end();
    queue_.push_back(event);
    queued_ += event->size();
    if (queue_.size() == 1) write_next();
  }

  /// Ends when what is being written is written.
  void finish() {
    finishing_ = true;
    if (queue_.empty() && !response_) end();
  }

private:
  void on_read(error_code failed) {
    if (ended_) return;
    if (failed) return refuse(failed);
    const http::request<http::string_body> x = parser_->release();
    http_response answer = answer_of(request_of(x));
    if (answer.streams && answer.status == 200 && x.method() == http::verb::get) return stream(answer);
    write(std::move(answer), x.method() != http::verb::head, x.keep_alive());
  }

  /// Tells what was wrong if that may help whoever wrote the client.
  void refuse(error_code why) {
    refused_ = true;
    if (why == http::error::header_limit || why == http::error::buffer_overflow)
      return write({.status = 431, .body = "The header of the request is too long.\n"}, true, false);
    if (why == http::error::body_limit)
      return write({.status = 413, .body = "The body of the request is too long.\n"}, true, false);
    if (why.category() != http::make_error_code(http::error::bad_method).category() ||
        why == http::error::end_of_stream || why == http::error::partial_message)
      return end();
    write({.status = 400, .body = "This is no request of HTTP/1.1.\n"}, true, false);
  }

  http_response answer_of(const http_request& asked) const try {
    return options_.answer(asked);
  } catch (const std::exception& e) {
    return {.status = 500, .body = std::string(e.what()) + '\n'};
  }

  void write(http_response answer, bool with_body, bool keep) {
    response_.emplace(static_cast<http::status>(answer.status), 11);
    for (const auto& [name, value] : answer.fields) response_->insert(name, value);
    response_->set(http::field::content_type, answer.type);
    response_->keep_alive(keep && !finishing_);
    response_->content_length(answer.body.size());
    if (with_body) response_->body() = std::move(answer.body);
    stream_.expires_after(options_.limits.patience);
    http::async_write(stream_, *response_, [me = shared_from_this()](error_code failed, std::size_t) {
      if (me->ended_) return;
      const bool again = !failed && me->response_->keep_alive() && !me->finishing_;
      me->response_.reset();
      if (again) return me->read();
      return !failed && me->refused_ && !me->finishing_ ? me->drain() : me->end();
    });
  }

  /// Closing a socket with unread bytes would take the answer from a client that still sends.
  void drain() {
    error_code ignored;
    if (std::exchange(refused_, false)) {
      stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
      stream_.expires_after(std::min(options_.limits.patience, longest_drain));
    }
    stream_.async_read_some(asio::buffer(unwanted_),
                            [me = shared_from_this()](error_code failed, std::size_t) {
                              if (me->ended_) return;
                              return failed ? me->end() : me->drain();
                            });
  }

  void stream(const http_response& answer) {
    std::string head =
        fmt::format("HTTP/1.1 200 OK\r\nContent-Type: {}\r\nConnection: close\r\n", answer.type);
    for (const auto& [name, value] : answer.fields) head += fmt::format("{}: {}\r\n", name, value);
    streaming_ = true;
    stream_.expires_never();
    // A client that takes events has nothing more to say, so whatever is read is its end.
    stream_.async_read_some(asio::buffer(unwanted_),
                            [me = shared_from_this()](error_code, std::size_t) { me->end(); });
    options_.on_stream();
    push(std::make_shared<const std::string>(head + "\r\n" + answer.body));
  }

  void write_next() {
    stream_.expires_after(options_.limits.patience);
    asio::async_write(stream_, asio::buffer(*queue_.front()),
                      [me = shared_from_this()](error_code failed, std::size_t) {
                        if (me->ended_) return;
                        if (failed) return me->end();
                        me->queued_ -= me->queue_.front()->size();
                        me->queue_.pop_front();
                        if (!me->queue_.empty()) return me->write_next();
                        if (me->finishing_) me->end();
                      });
  }

  void end() {
    if (std::exchange(ended_, true)) return;
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
    options_.on_end(*this);
  }

  beast::tcp_stream stream_;
  options options_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::string_body>> response_; ///< being written
  std::deque<std::shared_ptr<const std::string>> queue_;      ///< of a stream; the first is being written
  std::size_t queued_ = 0;                                    ///< bytes
  std::array<char, 4096> unwanted_{};                         ///< what the client says when nobody asked
  bool refused_ = false;                                      ///< of its last request more may still come
  bool streaming_ = false, finishing_ = false, ended_ = false;
};

struct http_server::implementation {
  implementation(const listen_address& where, const http_limits& l)
      : limits(l), acceptor(listening_at(io, where)), address{where.host, acceptor.local_endpoint().port()} {}
  ~implementation() {
    if (!thread.joinable()) return;
    asio::post(io, [this] { finish(); });
    thread.join();
    clients.clear(); // their sockets belong to io
  }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;

  void accept() {
    acceptor.async_accept([this](error_code failed, tcp::socket socket) {
      if (finishing) return;
      if (!failed) {
        take(std::move(socket));
        return accept();
      }
      // As long as the process has no free descriptor, accepting fails at once, again and again.
      retry.expires_after(pause_before_next_try);
      retry.async_wait([this](error_code cancelled) {
        if (!cancelled) accept();
      });
    });
  }

  void take(tcp::socket socket) {
    error_code ignored;
    if (clients.size() >= limits.connections) {
      constexpr std::string_view busy = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: "
                                        "5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(busy), ignored);
      return;
    }
    socket.set_option(tcp::no_delay(true), ignored);
    const auto client = std::make_shared<http_connection>(
        std::move(socket), http_connection::options{answer, limits, [this] { ++viewers; },
                                                    [this](http_connection& x) { forget(x); }});
    clients.insert(client);
    client->read();
  }

  void forget(http_connection& x) {
    if (x.is_streaming()) --viewers;
    clients.erase(x.shared_from_this());
    if (finishing && clients.empty()) io.stop();
  }

  /// Each of a copy, because one that is cut off leaves the set.
  void push(const std::shared_ptr<const std::string>& event) {
    for (const auto& client : std::set(clients))
      if (client->is_streaming()) client->push(event);
  }

  void beat() {
    next_beat.expires_after(limits.beat);
    next_beat.async_wait([this](error_code cancelled) {
      if (cancelled) return;
      push(std::make_shared<const std::string>(":\n\n")); // a comment
      beat();
    });
  }

  void finish() {
    finishing = true;
    error_code ignored;
    acceptor.close(ignored);
    next_beat.cancel();
    retry.cancel();
    for (const auto& client : std::set(clients)) client->finish();
    if (clients.empty()) return io.stop();
    retry.expires_after(longest_end);
    retry.async_wait([this](error_code) { io.stop(); });
  }

  http_handler answer;
  const http_limits limits;
  std::set<std::shared_ptr<http_connection>> clients;
  std::atomic<std::size_t> viewers{0};
  bool finishing = false;
  asio::io_context io{1}; ///< destroyed before what its handlers refer to
  tcp::acceptor acceptor;
  const listen_address address;
  asio::steady_timer next_beat{io}, retry{io};
  std::thread thread;
};

http_server::http_server(const listen_address& where, const http_limits& limits)
    : self_(std::make_unique<implementation>(where, limits)) {}
http_server::~http_server() = default;
http_server::http_server(http_server&&) noexcept = default;
http_server& http_server::operator=(http_server&&) noexcept = default;

void http_server::serve(http_handler answer) {
  self_->answer = std::move(answer);
  self_->accept();
  self_->beat();
  self_->thread = std::thread([self = self_.get()] { self->io.run(); });
}

const listen_address& http_server::address() const noexcept { return self_->address; }
std::size_t http_server::viewers() const noexcept { return self_->viewers.load(); }

void http_server::publish(std::string event) {
  asio::post(self_->io, [self = self_.get(), shared = std::make_shared<const std::string>(std::move(event))] {
    self->push(shared);
  });
}

} // namespace mailgrad
