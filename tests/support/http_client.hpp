#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace mailgrad::testing {

/// A client that says exactly what a test wants, over a bare socket to 127.0.0.1.
class http_client {
public:
  explicit http_client(std::uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
      throw std::runtime_error("nobody listens");
  }
  ~http_client() { hang_up(); }
  http_client(const http_client&) = delete;
  http_client& operator=(const http_client&) = delete;

  /// False if the other side has closed.
  bool say(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t n = send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  void get(const std::string& target, const std::string& fields = {}) const {
    say("GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + fields + "\r\n");
  }
  /// Reads until `text` was heard. False if the other side closes before.
  bool hears(std::string_view text) {
    while (heard_.find(text) == std::string::npos)
      if (!read_more()) return false;
    return true;
  }
  /// Reads all until the other side closes.
  const std::string& hear_out() {
    while (read_more()) {
    }
    return heard_;
  }
  const std::string& heard() const { return heard_; }
  void forget() { heard_.clear(); }
  void hang_up() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }

private:
  bool read_more() {
    char part[1 << 16];
    const ssize_t n = recv(socket_, part, sizeof part, 0);
    if (n > 0) heard_.append(part, static_cast<std::size_t>(n));
    return n > 0;
  }

  int socket_;
  std::string heard_;
};

/// One request on a connection of its own; the whole answer with its header.
inline std::string answer_to(std::uint16_t port, const std::string& request) {
  http_client client(port);
  client.say(request);
  return client.hear_out();
}
inline std::string got(std::uint16_t port, const std::string& target, const std::string& fields = {}) {
  return answer_to(port, "GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\n" +
                             fields + "Connection: close\r\n\r\n");
}

} // namespace mailgrad::testing
