#pragma once

#include <mailgrad/net/network.hpp>
#include <mailgrad/net/simulated_network.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace mailgrad::remote {

/// A simulated network for endpoints whose actors have threads of their own: a thread lets its time pass.
///
/// What the network does to bytes is drawn from a seed. When actors answer is not, so a seed does not repeat
/// a run.
/// Threads any.
class driven_network final : public net::network {
public:
  explicit driven_network(std::uint64_t seed, net::weather w = {}) : inner_(seed, w), now_(inner_.now()) {
    driver_ = std::jthread([this](const std::stop_token& over) { drive(over); });
  }
  ~driven_network() override {
    driver_.request_stop();
    driver_.join();
  }

  std::string listen(net::server_end& server, const std::string& address) override {
    const std::lock_guard lock(mutex_);
    known_.insert(&server);
    return inner_.listen(server, address);
  }
  void connect(net::client_end& client, const std::string& address) override {
    const std::lock_guard lock(mutex_);
    known_.insert(&client);
    inner_.connect(client, address);
  }
  void forget(net::endpoint& e) override {
    const std::lock_guard lock(mutex_);
    take_posted();
    inner_.run_until(inner_.now()); // what was posted before
    known_.erase(&e);
    inner_.forget(e);
  }
  net::instant now() const noexcept override { return now_.load(); }
  /// Whoever posts may hold a lock that the network's thread waits for.
  void post(net::endpoint& e, std::function<void(net::instant)> work) override {
    const std::lock_guard lock(posted_mutex_);
    posted_.emplace_back(&e, std::move(work));
  }

private:
  void drive(const std::stop_token& over) {
    while (!over.stop_requested()) {
      {
        const std::lock_guard lock(mutex_);
        take_posted();
        const net::instant next = inner_.now() + std::chrono::microseconds{200};
        inner_.run_until(next);
        now_ = next;
      }
      std::this_thread::yield();
    }
  }
  void take_posted() {
    std::vector<std::pair<net::endpoint*, std::function<void(net::instant)>>> all;
    {
      const std::lock_guard lock(posted_mutex_);
      all.swap(posted_);
    }
    for (auto& [e, work] : all)
      if (known_.contains(e)) inner_.post(*e, std::move(work));
  }

  std::mutex mutex_; ///< of the simulation
  net::simulated_network inner_;
  std::set<net::endpoint*> known_; ///< and not forgotten
  std::atomic<net::instant> now_;
  std::mutex posted_mutex_;
  std::vector<std::pair<net::endpoint*, std::function<void(net::instant)>>> posted_;
  std::jthread driver_;
};

} // namespace mailgrad::remote
