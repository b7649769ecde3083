#pragma once

#include <utility> // Asio 1.74 lacks it (asio#944)

#include <mailgrad/net/http/http_server.hpp>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace mailgrad {

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
    std::function<void(http_connection&)> on_stream; ///< it takes events from now on
    std::function<void(http_connection&)> on_end;
  };

  http_connection(boost::asio::ip::tcp::socket socket, options o);

  void begin() { read(); }
  bool is_streaming() const noexcept { return streaming_; }
  /// Sends this to a stream, or cuts it off if it is too far behind.
  void push(const std::shared_ptr<const std::string>& event);
  /// Ends when what is being written is written.
  void finish();

private:
  void read();
  void on_read(boost::beast::error_code failed);
  void refuse(boost::beast::error_code why);
  http_response answer_of(const http_request& asked) const;
  void write(http_response answer, bool with_body, bool keep);
  void stream(const http_response& answer);
  void watch_client();
  void drain();
  void write_next();
  void end();

  boost::beast::tcp_stream stream_;
  options options_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::optional<boost::beast::http::response<boost::beast::http::string_body>> response_; ///< being written
  std::deque<std::shared_ptr<const std::string>> queue_; ///< of a stream; the first is being written
  std::size_t queued_ = 0;                               ///< bytes
  std::array<char, 4096> unwanted_{};                    ///< what the client says when nobody asked
  bool refused_ = false;                                 ///< of its last request more may still come
  bool streaming_ = false;
  bool finishing_ = false;
  bool ended_ = false;
};

} // namespace mailgrad
