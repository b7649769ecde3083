#pragma once

#include <mailgrad/net/stream/stream_host.hpp>
#include <mailgrad/net/stream/stream_loop.hpp>
#include <mailgrad/net/thread_call.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>

namespace mailgrad::net {

/// The thread of a network of streams, and the hosts of its endpoints.
///
/// Threads any, but for the functions that say otherwise.
template <class Host>
class stream_thread {
public:
  /// Errors  std::system_error if there is no thread to be had.
  explicit stream_thread(std::chrono::microseconds spin) : loop_(spin), thread_([this] { loop_.run(); }) {}
  ~stream_thread() {
    loop_.post([this] {
      for (const auto& [e, host] : std::exchange(hosts_, {})) host->forget();
      loop_.stop(timing{}.farewell());
    });
    thread_.join();
  }
  stream_thread(const stream_thread&) = delete;
  stream_thread& operator=(const stream_thread&) = delete;

  /// Does it on the network's thread and waits for the result.
  template <class Work>
  std::invoke_result_t<Work> on_thread(Work work) {
    return call_on(thread_, loop_, std::move(work));
  }

  /// The host of an endpoint, or null. The network's thread.
  std::shared_ptr<Host> find(endpoint& e) const {
    const auto found = hosts_.find(&e);
    return found == hosts_.end() ? nullptr : found->second;
  }
  /// The network's thread.
  /// Errors  std::invalid_argument if the endpoint has one.
  void add(endpoint& e, std::shared_ptr<Host> host) {
    if (!hosts_.emplace(&e, std::move(host)).second)
      throw std::invalid_argument("network: expected a client that is not connected, found one that is");
  }
  void forget(endpoint& e) {
    on_thread([&] {
      if (const auto found = hosts_.extract(&e)) found.mapped()->forget();
    });
  }
  void post(endpoint& e, std::function<void(instant)> work) {
    loop_.post([this, &e, work = std::move(work)] {
      if (const auto host = find(e)) host->work(work); // which may forget it
    });
  }

  stream_loop& loop() noexcept { return loop_; }
  const stream_loop& loop() const noexcept { return loop_; }

private:
  stream_loop loop_; ///< destroyed after what belongs to it
  std::map<endpoint*, std::shared_ptr<Host>> hosts_;
  std::thread thread_;
};

} // namespace mailgrad::net
