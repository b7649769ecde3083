#include <mailgrad/net/http/http_connection.hpp>

#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <exception>

namespace mailgrad {

namespace beast = boost::beast;
namespace http = boost::beast::http;

namespace {

constexpr std::chrono::milliseconds longest_drain{1000};

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

http_connection::http_connection(boost::asio::ip::tcp::socket socket, options o)
    : stream_(std::move(socket)), options_(std::move(o)),
      buffer_(options_.limits.header_bytes + options_.limits.body_bytes) {}

void http_connection::read() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(options_.limits.header_bytes));
  parser_->body_limit(options_.limits.body_bytes);
  stream_.expires_after(options_.limits.patience); // for all of the request
  http::async_read(stream_, buffer_, *parser_,
                   [me = shared_from_this()](beast::error_code failed, std::size_t) { me->on_read(failed); });
}

void http_connection::on_read(beast::error_code failed) {
  if (ended_) return;
  if (failed) return refuse(failed);
  const http::request<http::string_body> x = parser_->release();
  http_response answer = answer_of(request_of(x));
  if (answer.streams && answer.status == 200 && x.method() == http::verb::get) return stream(answer);
  write(std::move(answer), x.method() != http::verb::head, x.keep_alive());
}

/// Tells what was wrong if that may help whoever wrote the client.
void http_connection::refuse(beast::error_code why) {
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

http_response http_connection::answer_of(const http_request& asked) const {
  try {
    return options_.answer(asked);
  } catch (const std::exception& e) {
    return {.status = 500, .body = std::string(e.what()) + '\n'};
  }
}

void http_connection::write(http_response answer, bool with_body, bool keep) {
  response_.emplace(static_cast<http::status>(answer.status), 11);
  for (const auto& [name, value] : answer.fields) response_->insert(name, value);
  response_->set(http::field::content_type, answer.type);
  response_->keep_alive(keep && !finishing_);
  response_->content_length(answer.body.size());
  if (with_body) response_->body() = std::move(answer.body);
  stream_.expires_after(options_.limits.patience);
  http::async_write(stream_, *response_, [me = shared_from_this()](beast::error_code failed, std::size_t) {
    if (me->ended_) return;
    const bool again = !failed && me->response_->keep_alive() && !me->finishing_;
    me->response_.reset();
    if (again) return me->read();
    return !failed && me->refused_ && !me->finishing_ ? me->drain() : me->end();
  });
}

/// Closing a socket with unread bytes would take the answer from a client that still sends.
void http_connection::drain() {
  beast::error_code ignored;
  if (refused_) {
    stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    stream_.expires_after(std::min(options_.limits.patience, longest_drain));
    refused_ = false;
  }
  stream_.async_read_some(boost::asio::buffer(unwanted_),
                          [me = shared_from_this()](beast::error_code failed, std::size_t) {
                            if (me->ended_) return;
                            return failed ? me->end() : me->drain();
                          });
}

void http_connection::stream(const http_response& answer) {
  std::string head = fmt::format("HTTP/1.1 200 OK\r\nContent-Type: {}\r\nConnection: close\r\n", answer.type);
  for (const auto& [name, value] : answer.fields) head += fmt::format("{}: {}\r\n", name, value);
  streaming_ = true;
  stream_.expires_never();
  watch_client();
  options_.on_stream(*this);
  push(std::make_shared<const std::string>(head + "\r\n" + answer.body));
}

/// A client that takes events has nothing more to say, so whatever is read is its end.
void http_connection::watch_client() {
  stream_.async_read_some(boost::asio::buffer(unwanted_),
                          [me = shared_from_this()](beast::error_code, std::size_t) { me->end(); });
}

void http_connection::push(const std::shared_ptr<const std::string>& event) {
  if (ended_ || finishing_) return;
  if (queued_ > options_.limits.queued_bytes) return end();
  queue_.push_back(event);
  queued_ += event->size();
  if (queue_.size() == 1) write_next();
}

void http_connection::write_next() {
  stream_.expires_after(options_.limits.patience);
  boost::asio::async_write(stream_, boost::asio::buffer(*queue_.front()),
                           [me = shared_from_this()](beast::error_code failed, std::size_t) {
                             if (me->ended_) return;
                             if (failed) return me->end();
                             me->queued_ -= me->queue_.front()->size();
                             me->queue_.pop_front();
                             if (!me->queue_.empty()) return me->write_next();
                             if (me->finishing_) me->end();
                           });
}

void http_connection::finish() {
  finishing_ = true;
  if (queue_.empty() && !response_) end();
}

void http_connection::end() {
  if (std::exchange(ended_, true)) return;
  beast::error_code ignored;
  stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
  options_.on_end(*this);
}

} // namespace mailgrad
