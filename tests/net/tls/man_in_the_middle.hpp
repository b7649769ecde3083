#pragma once

#include <mailgrad/net/frame.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace mailgrad::net {

/// Passes on what two processes of this machine say, and does harm to it once when asked.
///
/// Threads any.
class man_in_the_middle {
public:
  /// What is done to the next bytes that come.
  struct harm {
    bytes behind{};                         ///< what is sent behind them
    std::optional<std::uint64_t> changes{}; ///< which of them is changed
    bool cuts = false;                      ///< half of them are sent, and the connection closes
  };

  /// `to`: 127.0.0.1 and a port.
  explicit man_in_the_middle(const std::string& to)
      : to_(static_cast<std::uint16_t>(std::stoi(to.substr(to.rfind(':') + 1)))),
        listens_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), over_(eventfd(0, EFD_CLOEXEC)) {
    sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;
    if (bind(listens_, reinterpret_cast<const sockaddr*>(&at), size) != 0 || listen(listens_, 16) != 0 ||
        getsockname(listens_, reinterpret_cast<sockaddr*>(&at), &size) != 0)
      throw std::runtime_error("no port is free");
    address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    thread_ = std::thread([this] { pass_on(); });
  }
  ~man_in_the_middle() {
    eventfd_write(over_, 1);
    thread_.join();
    for (const pair& p : pairs_)
      for (const int s : p) close(s);
    close(listens_);
    close(over_);
  }
  man_in_the_middle(const man_in_the_middle&) = delete;
  man_in_the_middle& operator=(const man_in_the_middle&) = delete;

  const std::string& address() const noexcept { return address_; }
  /// To the next bytes on the way up to the server, or down.
  void do_harm(bool up, harm h) {
    const std::lock_guard lock(mutex_);
    (up ? up_ : down_) = std::move(h);
  }

private:
  using pair = std::array<int, 2>; ///< who has connected, and the server

  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
  }
  static void say(int to, byte_view all) {
    while (!all.empty()) {
      const ssize_t n = send(to, all.data(), all.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      all = all.subspan(static_cast<std::size_t>(n));
    }
  }

  void pass_on() {
    for (;;) {
      std::vector<pollfd> all{{over_, POLLIN, 0}, {listens_, POLLIN, 0}};
      for (const pair& p : pairs_)
        for (const int s : p) all.push_back({s, POLLIN, 0});
      poll(all.data(), all.size(), -1);
      if (all[0].revents != 0) return;
      std::vector<pair> still;
      for (std::size_t i = 0; i < pairs_.size(); ++i) {
        bool goes_on = true;
        for (const bool up : {true, false})
          if (goes_on && all[2 + 2 * i + (up ? 0 : 1)].revents != 0) goes_on = pass(pairs_[i], up);
        if (goes_on) still.push_back(pairs_[i]);
        for (const int s : pairs_[i])
          if (!goes_on) close(s);
      }
      pairs_ = std::move(still);
      if (all[1].revents != 0) take_in();
    }
  }
  void take_in() {
    const int from = accept(listens_, nullptr, nullptr), to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in at = loopback(to_);
    connect(to, reinterpret_cast<const sockaddr*>(&at), sizeof at);
    pairs_.push_back({from, to});
  }
  /// False: both connections are to be closed.
  bool pass(const pair& p, bool up) {
    bytes data(1 << 16);
    const ssize_t n = recv(p[up ? 0 : 1], data.data(), data.size(), 0);
    if (n <= 0) return false;
    data.resize(static_cast<std::size_t>(n));
    std::optional<harm> h;
    {
      const std::lock_guard lock(mutex_);
      h = std::exchange(up ? up_ : down_, std::nullopt);
    }
    if (h && h->changes) data[*h->changes % data.size()] ^= std::byte{1};
    if (h && h->cuts) data.resize(data.size() / 2);
    if (h) data.insert(data.end(), h->behind.begin(), h->behind.end());
    say(p[up ? 1 : 0], data);
    return !h || !h->cuts;
  }

  std::uint16_t to_;
  int listens_, over_;
  std::string address_;
  std::vector<pair> pairs_; ///< of the thread
  std::mutex mutex_;        ///< guards the two members below
  std::optional<harm> up_, down_;
  std::thread thread_;
};

} // namespace mailgrad::net
