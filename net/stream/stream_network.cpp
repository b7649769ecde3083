#include <mailgrad/net/stream/stream_network.hpp>

#include <mailgrad/net/stream/stream_host.hpp>
#include <mailgrad/net/stream/stream_loop.hpp>
#include <mailgrad/net/thread_call.hpp>

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

namespace mailgrad::net {

/// The thread and the hosts of the endpoints, which are its own.
class stream_network::implementation {
public:
  implementation(std::chrono::microseconds spin, std::chrono::milliseconds patience, host_maker make)
      : patience_(patience), make_(std::move(make)), loop_(spin), thread_([this] { loop_.run(); }) {}
  ~implementation() {
    loop_.post([this] {
      for (const auto& [e, host] : std::exchange(hosts_, {})) host->forget();
      loop_.stop(timing{}.farewell());
    });
    thread_.join();
  }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;

  template <class Work>
  std::invoke_result_t<Work> on_thread(Work work) {
    return call_on(thread_, loop_, std::move(work));
  }

  std::string listen(server_end& server, const std::string& address) {
    const auto known = hosts_.find(&server);
    const auto host = known == hosts_.end() ? make_(loop_, &server, nullptr) : known->second;
    std::string at = host->listen(address);
    hosts_.emplace(&server, host);
    return at;
  }
  void connect(client_end& client, const std::string& address) {
    const auto host = make_(loop_, nullptr, &client);
    host->aim_at(address);
    if (!hosts_.emplace(&client, host).second)
      throw std::invalid_argument("network: expected a client that is not connected, found one that is");
    host->connect(client.tries_once() ? instant{0} : patience_);
  }
  void forget(endpoint& e) {
    if (const auto found = hosts_.extract(&e)) found.mapped()->forget();
  }
  void post(endpoint& e, std::function<void(instant)> work) {
    loop_.post([this, &e, work = std::move(work)] {
      const auto found = hosts_.find(&e);
      if (found == hosts_.end()) return;
      const auto host = found->second; // which the work may forget
      host->work(work);
    });
  }
  instant now() const noexcept { return loop_.now(); }

private:
  const instant patience_;
  const host_maker make_;
  stream_loop loop_; ///< destroyed after what belongs to it
  std::map<endpoint*, std::shared_ptr<stream_host>> hosts_;
  std::thread thread_;
};

stream_network::stream_network(const std::string& name, std::chrono::microseconds spin,
                               std::chrono::milliseconds patience, host_maker make) {
  if (spin.count() < 0 || patience.count() < 0)
    throw std::invalid_argument(
        fmt::format("{} network: expected times of 0 or more, found a negative one", name));
  self_ = std::make_unique<implementation>(spin, patience, std::move(make));
}
stream_network::~stream_network() = default;

std::string stream_network::listen(server_end& server, const std::string& address) {
  return self_->on_thread([&] { return self_->listen(server, address); });
}
void stream_network::connect(client_end& client, const std::string& address) {
  self_->on_thread([&] { self_->connect(client, address); });
}
void stream_network::forget(endpoint& e) {
  self_->on_thread([&] { self_->forget(e); });
}
void stream_network::post(endpoint& e, std::function<void(instant)> work) { self_->post(e, std::move(work)); }
instant stream_network::now() const noexcept { return self_->now(); }

} // namespace mailgrad::net
