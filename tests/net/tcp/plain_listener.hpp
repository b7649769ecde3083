#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mailgrad::net {

/// Connects to a port of 127.0.0.1. The caller closes the socket.
inline int connected_to_port(std::uint16_t port) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect(made, reinterpret_cast<const sockaddr*>(&at), sizeof at);
  return made;
}

/// A port of 127.0.0.1 at which something else than a server of Mailgrad is.
class plain_listener {
public:
  plain_listener() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    at_.sin_family = AF_INET;
    at_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at_;
    const int again = 1; // a server may listen there next
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &again, sizeof again);
    if (bind(socket_, reinterpret_cast<const sockaddr*>(&at_), size) != 0 || listen(socket_, 16) != 0 ||
        getsockname(socket_, reinterpret_cast<sockaddr*>(&at_), &size) != 0)
      throw std::runtime_error("no port is free");
  }
  ~plain_listener() { close(socket_); }
  plain_listener(const plain_listener&) = delete;
  plain_listener& operator=(const plain_listener&) = delete;

  std::uint16_t port() const noexcept { return ntohs(at_.sin_port); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port()); }
  int descriptor() const noexcept { return socket_; }
  /// Waits for a peer. The caller closes its socket.
  int accepted() const { return accept(socket_, nullptr, nullptr); }
  void turn_away() const { close(accepted()); }

  /// Waits for a peer, says this to it, and waits until it closes.
  void answer(std::string_view text) const {
    const int peer = accepted();
    send(peer, text.data(), text.size(), MSG_NOSIGNAL);
    shutdown(peer, SHUT_WR);
    for (char byte = 0; recv(peer, &byte, 1, 0) > 0;) {
    }
    close(peer);
  }

  /// The first bytes that a peer says.
  std::string hear(std::size_t count) const {
    const int peer = accepted();
    std::string heard(count, '\0');
    const ssize_t n = recv(peer, heard.data(), count, MSG_WAITALL);
    close(peer);
    heard.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return heard;
  }

private:
  int socket_;
  sockaddr_in at_{};
};

} // namespace mailgrad::net
