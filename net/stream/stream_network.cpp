#include <mailgrad/net/stream/stream_network.hpp>

#include <mailgrad/net/stream/stream_host.hpp>
#include <mailgrad/net/thread_call.hpp>

namespace mailgrad::net {

/// The thread, and the hosts of the endpoints, which are its own.
struct stream_network::implementation {
  implementation(std::chrono::microseconds spin, std::chrono::milliseconds connects_for, host_maker maker)
      : patience(connects_for), make(std::move(maker)), loop(spin), thread([this] { loop.run(); }) {}
  ~implementation() {
    loop.post([this] {
      for (const auto& [e, host] : std::exchange(hosts, {})) host->forget();
      loop.stop(timing{}.farewell());
    });
    thread.join();
  }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;

  const instant patience;
  const host_maker make;
  stream_loop loop; ///< destroyed after what belongs to it
  std::map<endpoint*, std::shared_ptr<stream_host>> hosts;
  std::thread thread;
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
  return call_on(self_->thread, self_->loop, [&] {
    const auto known = self_->hosts.find(&server);
    const auto host =
        known == self_->hosts.end() ? self_->make(self_->loop, &server, nullptr) : known->second;
    std::string at = host->listen(address);
    self_->hosts.emplace(&server, host);
    return at;
  });
}

void stream_network::connect(client_end& client, const std::string& address) {
  call_on(self_->thread, self_->loop, [&] {
    const auto host = self_->make(self_->loop, nullptr, &client);
    host->aim_at(address);
    if (!self_->hosts.emplace(&client, host).second)
      throw std::invalid_argument("network: expected a client that is not connected, found one that is");
    host->connect(client.tries_once() ? instant{0} : self_->patience);
  });
}

void stream_network::forget(endpoint& e) {
  call_on(self_->thread, self_->loop, [&] {
    if (const auto found = self_->hosts.extract(&e)) found.mapped()->forget();
  });
}

void stream_network::post(endpoint& e, std::function<void(instant)> work) {
  self_->loop.post([self = self_.get(), &e, work = std::move(work)] {
    const auto found = self->hosts.find(&e);
    if (found == self->hosts.end()) return;
    const auto host = found->second; // which the work may forget
    host->work(work);
  });
}

instant stream_network::now() const noexcept { return self_->loop.now(); }

} // namespace mailgrad::net
