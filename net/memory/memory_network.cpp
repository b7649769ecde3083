#include <mailgrad/net/memory/memory_network.hpp>

#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/memory/memory_host.hpp>
#include <mailgrad/net/memory/shared_region.hpp>
#include <mailgrad/net/stream/stream_thread.hpp>

#include <stdexcept>
#include <system_error>

namespace mailgrad::net {

namespace {

const memory_options& checked_options(const memory_options& o) {
  if (o.spin.count() < 0 || o.patience.count() < 0)
    throw std::invalid_argument("memory network: expected times of 0 or more, found a negative one");
  return o;
}

} // namespace

class memory_network::implementation {
public:
  explicit implementation(const memory_options& options)
      : options_(checked_options(options)), thread_(options.spin) {}

  std::string listen(server_end& server, const std::string& address) {
    const std::string name = parse_memory_listen_address(address);
    shared_region::make(); // a system that has none says so now, and not to each peer
    return thread_.on_thread([&] {
      const auto known = thread_.find(server);
      const auto host = known ? known : std::make_shared<memory_host>(thread_.loop(), server);
      std::string at = memory_address(host->listen(name));
      if (!known) thread_.add(server, host);
      return at;
    });
  }

  void connect(client_end& client, const std::string& address) {
    const std::string name = parse_memory_server_address(address);
    thread_.on_thread([&] {
      const auto host = std::make_shared<memory_host>(thread_.loop(), client);
      thread_.add(client, host);
      host->connect(name, client.tries_once() ? instant{0} : options_.patience);
    });
  }

  stream_thread<memory_host>& thread() noexcept { return thread_; }

private:
  memory_options options_;
  stream_thread<memory_host> thread_;
};

memory_network::memory_network(const memory_options& options)
    : self_(std::make_unique<implementation>(options)) {}
memory_network::~memory_network() = default;

bool memory_network::is_supported() noexcept try {
  shared_region::make(shared_region::least_ring_bytes);
  return true;
} catch (const std::system_error&) {
  return false;
}

std::string memory_network::listen(server_end& server, const std::string& address) {
  return self_->listen(server, address);
}
void memory_network::connect(client_end& client, const std::string& address) {
  self_->connect(client, address);
}
void memory_network::forget(endpoint& e) { self_->thread().forget(e); }
void memory_network::post(endpoint& e, std::function<void(instant)> work) {
  self_->thread().post(e, std::move(work));
}
instant memory_network::now() const noexcept { return self_->thread().loop().now(); }

} // namespace mailgrad::net
