#pragma once

#include "measuring.hpp"

#include <mailgrad/net/memory/memory_network.hpp>
#include <mailgrad/net/memory/shared_heap.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>

#include <openssl/evp.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

// Both ends of the channels that channel.cpp compares, in one process with a thread at each end.

namespace mailgrad::bench {

using bytes = std::vector<std::byte>;

inline constexpr std::size_t largest_body = std::size_t{16} << 20;

/// Microseconds in which a thread that looks all the time sees what another one wrote.
inline double hand_over_spinning() {
  constexpr int turns = 20'000;
  std::atomic<int> turn = 0;
  std::thread other([&] {
    for (int i = 1; i < 2 * turns; i += 2) {
      while (turn.load(std::memory_order_acquire) != i) {
      }
      turn.store(i + 1, std::memory_order_release);
    }
  });
  const stopwatch watch;
  for (int i = 0; i < 2 * turns; i += 2) {
    turn.store(i + 1, std::memory_order_release);
    while (turn.load(std::memory_order_acquire) != i + 2) {
    }
  }
  const double seconds = watch.seconds();
  other.join();
  return seconds / (2 * turns) * 1e6;
}

/// The same for threads that sleep until they are woken.
inline double hand_over_sleeping() {
  constexpr int turns = 5'000;
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;
  const auto take_turns = [&](int mine) {
    for (int i = 0; i < turns; ++i) {
      std::unique_lock guard(mutex);
      changed.wait(guard, [&] { return turn % 2 == mine; });
      ++turn;
      changed.notify_one();
    }
  };
  const stopwatch watch;
  std::thread other([&] { take_turns(1); });
  take_turns(0);
  other.join();
  return watch.seconds() / (2 * turns) * 1e6;
}

/// GB/s in which one core encrypts records of 16 KiB, as `openssl speed -evp aes-256-gcm` does.
inline double aes_256_gcm() {
  constexpr std::size_t record = 16 << 10;
  constexpr int records = 20'000;
  const std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> c(EVP_CIPHER_CTX_new(),
                                                                     EVP_CIPHER_CTX_free);
  const std::vector<unsigned char> key(32, 1), from(record, 2);
  std::vector<unsigned char> nonce(12), to(record), tag(16);
  EVP_EncryptInit_ex(c.get(), EVP_aes_256_gcm(), nullptr, key.data(), nonce.data());
  int n = 0;
  const stopwatch watch;
  for (int i = 0; i < records; ++i) {
    ++nonce[0];
    EVP_EncryptInit_ex(c.get(), nullptr, nullptr, nullptr, nonce.data());
    EVP_EncryptUpdate(c.get(), to.data(), &n, from.data(), record);
    EVP_EncryptFinal_ex(c.get(), to.data() + n, &n);
    EVP_CIPHER_CTX_ctrl(c.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(tag.size()), tag.data());
  }
  keep(to[0]);
  return static_cast<double>(record) * records / watch.seconds() / 1e9;
}

/// Microseconds of two copies through a buffer that stays in the cache, as bytes go by a ring.
inline double copied_twice(std::size_t size, std::size_t count) {
  constexpr std::size_t at_once = 64 << 10;
  const bytes from(size, std::byte{1});
  bytes between(at_once), to(size);
  const stopwatch watch;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t done = 0; done < size; done += at_once) {
      const std::size_t n = std::min(at_once, size - done);
      std::memcpy(between.data(), from.data() + done, n);
      keep(between[0]);
      std::memcpy(to.data() + done, between.data(), n);
      keep(to[done]);
    }
  return watch.seconds() / static_cast<double>(count) * 1e6;
}

/// Two connected blocking sockets, and nothing but their bytes.
class bare_pair {
public:
  bare_pair() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    ends_[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, reinterpret_cast<sockaddr*>(&at), size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size) != 0 ||
        connect(ends_[0], reinterpret_cast<sockaddr*>(&at), size) != 0)
      throw std::runtime_error("no loopback");
    ends_[1] = accept(listener, nullptr, nullptr);
    close(listener);
    for (const int end : ends_) {
      constexpr int on = 1;
      setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
  }
  ~bare_pair() {
    for (const int end : ends_) close(end);
  }
  bare_pair(const bare_pair&) = delete;
  bare_pair& operator=(const bare_pair&) = delete;

  /// GB/s of `count` bodies.
  double throughput(std::size_t size, std::size_t count) {
    const stopwatch watch;
    std::thread sender([&] {
      for (std::size_t i = 0; i < count; ++i) send_all(ends_[0], size);
    });
    for (std::size_t i = 0; i < count; ++i) receive_all(ends_[1], size);
    const double seconds = watch.seconds();
    sender.join();
    return static_cast<double>(size * count) / seconds / 1e9;
  }
  /// Microseconds of one.
  double round_trip(std::size_t size, int count) {
    std::thread other([&] {
      for (int i = 0; i < count; ++i) {
        receive_all(ends_[1], size);
        send_all(ends_[1], size);
      }
    });
    const stopwatch watch;
    for (int i = 0; i < count; ++i) {
      send_all(ends_[0], size);
      receive_all(ends_[0], size);
    }
    const double seconds = watch.seconds();
    other.join();
    return seconds / count * 1e6;
  }

private:
  void send_all(int end, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
      const ssize_t n = send(end, out_.data() + done, size - done, MSG_NOSIGNAL);
      if (n <= 0) throw std::runtime_error("send");
      done += static_cast<std::size_t>(n);
    }
  }
  void receive_all(int end, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
      const ssize_t n = recv(end, in_.data() + done, size - done, 0);
      if (n <= 0) throw std::runtime_error("recv");
      done += static_cast<std::size_t>(n);
    }
  }

  int ends_[2];
  bytes out_ = bytes(largest_body, std::byte{1}), in_ = bytes(largest_body);
};

/// One end of a session: sends on what comes, or counts it.
class session_side final : public net::session_events {
public:
  net::session* own = nullptr;
  bool answers = false;             ///< messages
  bool answers_too = false;         ///< bodies
  std::size_t wanted = 0, came = 0; ///< messages or bodies, until done() is told
  std::size_t to_send = 0, size = 0;
  bool exchanges = false; ///< sends the next body when the answer to the one before has come
  bool reads = false;     ///< what is lent to it, once
  std::promise<void>* done = nullptr;
  std::promise<void> is_joined;
  std::atomic<bool> may_end{false};

  void joined(const net::welcome&) override { is_joined.set_value(); }
  void message_came(net::byte_view message) override {
    own->allow(1, 0);
    if (answers || ++came < wanted)
      own->send(bytes(message.begin(), message.end()));
    else
      done->set_value();
  }
  std::span<std::byte> place_of_body(net::byte_view, std::uint64_t size_of) override {
    return std::span{in_}.first(size_of);
  }
  void body_came(net::byte_view) override {
    own->allow(0, 1);
    if (answers_too || (++came < wanted && exchanges)) {
      to_send = 1;
      send_bodies();
    } else if (came == wanted) {
      done->set_value();
    }
  }
  /// What is lent is needed no more when this returns.
  bool body_lent(net::byte_view tag, const net::borrowed& body, std::uint64_t) override {
    if (reads) {
      const std::span values(reinterpret_cast<const std::uint64_t*>(body.bytes.data()),
                             body.bytes.size() / 8);
      read_ = std::accumulate(values.begin(), values.end(), std::uint64_t{0});
    }
    body_came(tag);
    return false;
  }
  void credit_came() override { send_bodies(); }
  /// Sends what lies in this heap from now on, which its peer can read there.
  void lend_from(net::shared_heap& heap) {
    const auto lent = std::make_shared<block>(heap.allocate(largest_body));
    out_ = {lent, lent->data()};
  }
  void ended(const net::ending& why) override {
    if (may_end) return;
    std::fprintf(stderr, "channel: %s\n", why.words.c_str());
    std::abort();
  }
  void send_bodies() {
    while (to_send > 0 && own->send_body({}, {out_.get(), size}, out_)) --to_send;
  }

private:
  std::shared_ptr<const bytes> moved_ = std::make_shared<bytes>(largest_body, std::byte{1});
  std::shared_ptr<const std::byte> out_{moved_, moved_->data()};
  volatile std::uint64_t read_ = 0;
  bytes in_ = bytes(largest_body);
};

/// A session between two networks of this process.
class session_pair final : net::doorkeeper {
public:
  /// By TCP.
  explicit session_pair(const net::tcp_options& options = {})
      : session_pair(std::make_unique<net::tcp_network>(options), std::make_unique<net::tcp_network>(options),
                     "127.0.0.1:0") {}
  /// By memory that both share.
  explicit session_pair(const net::memory_options& options, bool lends = false)
      : session_pair(std::make_unique<net::memory_network>(options),
                     std::make_unique<net::memory_network>(options), "memory:", lends) {}
  session_pair(std::unique_ptr<net::network> server_net, std::unique_ptr<net::network> client_net,
               const std::string& address, bool lends = false)
      : server_net_(std::move(server_net)), client_net_(std::move(client_net)) {
    if (lends) lend();
    client_.own = &client_end_.own();
    client_net_->connect(client_end_, server_net_->listen(server_end_, address));
    client_.is_joined.get_future().wait();
    server_.is_joined.get_future().wait();
  }
  ~session_pair() {
    server_.may_end = true;
    client_net_->forget(client_end_);
    server_net_->forget(server_end_);
  }
  session_pair(const session_pair&) = delete;
  session_pair& operator=(const session_pair&) = delete;

  double throughput(std::size_t size, std::size_t count) {
    std::promise<void> done;
    reset(*server_net_, server_end_, server_, count, &done);
    const stopwatch watch;
    client_net_->post(client_end_, [&](net::instant) {
      client_.to_send = count;
      client_.size = size;
      client_.send_bodies();
    });
    done.get_future().wait();
    return static_cast<double>(size * count) / watch.seconds() / 1e9;
  }
  double round_trip(std::size_t size, int count) {
    std::promise<void> done;
    server_.answers = true;
    reset(*client_net_, client_end_, client_, static_cast<std::size_t>(count), &done);
    const stopwatch watch;
    client_net_->post(client_end_, [&](net::instant) { client_.own->send(bytes(size, std::byte{1})); });
    done.get_future().wait();
    return watch.seconds() / count * 1e6;
  }
  /// Microseconds of one: a body there and one back.
  double exchange(std::size_t size, std::size_t count, bool reads = false) {
    server_.reads = client_.reads = reads;
    std::promise<void> done;
    set(true, size);
    reset(*client_net_, client_end_, client_, count, &done);
    const stopwatch watch;
    client_net_->post(client_end_, [&](net::instant) {
      client_.to_send = 1;
      client_.send_bodies();
    });
    done.get_future().wait();
    const double seconds = watch.seconds();
    set(false, size);
    return seconds / static_cast<double>(count) * 1e6;
  }

private:
  void lend() {
    for (const auto& [end, side] :
         {std::pair<net::endpoint*, session_side*>{&server_end_, &server_}, {&client_end_, &client_}}) {
      const auto heap = std::make_shared<net::shared_heap>();
      end->lend_from(heap);
      side->lend_from(*heap);
    }
  }
  /// Begins or ends exchanges. Nothing is under way.
  void set(bool exchanges, std::size_t size) {
    for (session_side* side : {&server_, &client_}) side->size = size;
    server_.answers_too = exchanges;
    client_.exchanges = exchanges;
  }
  net::session_events& let_in(net::session& s, const std::string&) override {
    server_.own = &s;
    return server_;
  }
  void turned_away(const net::refusal&, const std::string&) override {}
  static void reset(net::network& net, net::endpoint& e, session_side& side, std::size_t wanted,
                    std::promise<void>* done) {
    std::promise<void> set;
    net.post(e, [&](net::instant) {
      side.wanted = wanted;
      side.came = 0;
      side.done = done;
      set.set_value();
    });
    set.get_future().wait();
  }

  session_side server_, client_;
  std::unique_ptr<net::network> server_net_, client_net_;
  /// Other programs may take the processors for seconds, so silence is no death.
  net::server_end server_end_{{.slots = {{net::role::worker, 1}},
                               .run = 1,
                               .times = net::timing(net::timing::most_heartbeat),
                               .draw = [] { return 1; }},
                              *this};
  net::client_end client_end_{{}, client_, client_net_->now()};
};

} // namespace mailgrad::bench
