#include <mailgrad/net/tcp/tcp_network.hpp>

#include <mailgrad/net/stream/stream_thread.hpp>
#include <mailgrad/net/tcp/tcp_host.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace mailgrad::net {

namespace {

const tcp_options& checked(const tcp_options& o) {
  if (o.spin.count() < 0 || o.patience.count() < 0)
    throw std::invalid_argument("tcp network: expected times of 0 or more, found a negative one");
  return o;
}

} // namespace

class tcp_network::implementation {
public:
  explicit implementation(const tcp_options& options) : options_(checked(options)), thread_(options.spin) {}

  std::string listen(server_end& server, const std::string& address) {
    const listen_address where = parse_listen_address(address);
    if (!options_.keys && !where.is_loopback())
      throw std::invalid_argument(fmt::format(
          "cannot listen at {} without keys, since anybody could join: give --keys DIR (`mailgrad keys "
          "new DIR` makes it), or listen at 127.0.0.1",
          address));
    return thread_.on_thread([&] {
      const auto known = thread_.find(server);
      const auto host = known ? known : std::make_shared<tcp_host>(thread_.loop(), server, options_.keys);
      std::string at = to_string(host->listen(where));
      if (!known) thread_.add(server, host);
      return at;
    });
  }

  void connect(client_end& client, const std::string& address) {
    const listen_address where = parse_server_address(address);
    thread_.on_thread([&] {
      const auto host = std::make_shared<tcp_host>(thread_.loop(), client, options_.keys);
      thread_.add(client, host);
      host->connect(where, client.tries_once() ? instant{0} : options_.patience, options_.on_wait);
    });
  }

  stream_thread<tcp_host>& thread() noexcept { return thread_; }

private:
  tcp_options options_;
  stream_thread<tcp_host> thread_;
};

tcp_network::tcp_network(const tcp_options& options) : self_(std::make_unique<implementation>(options)) {}
tcp_network::~tcp_network() = default;

std::string tcp_network::listen(server_end& server, const std::string& address) {
  return self_->listen(server, address);
}
void tcp_network::connect(client_end& client, const std::string& address) { self_->connect(client, address); }
void tcp_network::forget(endpoint& e) { self_->thread().forget(e); }
void tcp_network::post(endpoint& e, std::function<void(instant)> work) {
  self_->thread().post(e, std::move(work));
}
instant tcp_network::now() const noexcept { return self_->thread().loop().now(); }

} // namespace mailgrad::net
