#include <mailgrad/net/tcp/tcp_network.hpp>

#include <mailgrad/net/tcp/tcp_host.hpp>
#include <mailgrad/net/tcp/tcp_loop.hpp>

#include <fmt/format.h>

#include <sched.h>

#include <future>
#include <map>
#include <stdexcept>
#include <thread>
#include <type_traits>

namespace mailgrad::net {

std::chrono::microseconds usual_spin() noexcept {
  cpu_set_t mine;
  const bool known = sched_getaffinity(0, sizeof mine, &mine) == 0;
  return std::chrono::microseconds{known && CPU_COUNT(&mine) == 1 ? 0 : 50};
}

namespace {

const tcp_options& checked(const tcp_options& o) {
  if (o.spin.count() < 0 || o.patience.count() < 0)
    throw std::invalid_argument("tcp network: expected times of 0 or more, found a negative one");
  return o;
}

} // namespace

class tcp_network::implementation {
public:
  explicit implementation(const tcp_options& options)
      : options_(checked(options)), loop_(options.spin), thread_([this] { loop_.run(); }) {}
  ~implementation() {
    loop_.post([this] {
      for (const auto& [e, host] : std::exchange(hosts_, {})) host->forget();
      loop_.stop(timing{}.farewell());
    });
    thread_.join();
  }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;

  std::string listen(server_end& server, const std::string& address) {
    const listen_address where = parse_listen_address(address);
    if (!options_.keys && !where.is_loopback())
      throw std::invalid_argument(fmt::format(
          "cannot listen at {} without keys, since anybody could join: give --keys DIR (`mailgrad keys "
          "new DIR` makes it), or listen at 127.0.0.1",
          address));
    return on_thread([&] {
      const auto found = hosts_.find(&server);
      const auto host =
          found != hosts_.end() ? found->second : std::make_shared<tcp_host>(loop_, server, options_.keys);
      std::string at = to_string(host->listen(where));
      hosts_.emplace(&server, host);
      return at;
    });
  }

  void connect(client_end& client, const std::string& address) {
    const listen_address where = parse_server_address(address);
    on_thread([&] {
      const auto host = std::make_shared<tcp_host>(loop_, client, options_.keys);
      if (!hosts_.emplace(&client, host).second)
        throw std::invalid_argument(
            "tcp network: expected a client that is not connected, found one that is");
      host->connect(where, client.tries_once() ? instant{0} : options_.patience);
    });
  }

  void forget(endpoint& e) {
    on_thread([&] {
      if (const auto found = hosts_.extract(&e)) found.mapped()->forget();
    });
  }

  void post(endpoint& e, std::function<void(instant)> work) {
    loop_.post([this, &e, work = std::move(work)] {
      const auto found = hosts_.find(&e);
      if (found == hosts_.end()) return;
      const auto host = found->second; // since the work may forget it
      host->work(work);
    });
  }

  instant now() const noexcept { return loop_.now(); }

private:
  /// Does it on the network's thread and waits for the result.
  template <class Work>
  std::invoke_result_t<Work> on_thread(Work work) {
    if (std::this_thread::get_id() == thread_.get_id()) return work();
    const auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Work>()>>(std::move(work));
    auto result = task->get_future();
    loop_.post([task] { (*task)(); });
    return result.get();
  }

  tcp_options options_;
  tcp_loop loop_; ///< destroyed after what belongs to it
  std::map<endpoint*, std::shared_ptr<tcp_host>> hosts_;
  std::thread thread_;
};

tcp_network::tcp_network(const tcp_options& options) : self_(std::make_unique<implementation>(options)) {}
tcp_network::~tcp_network() = default;

std::string tcp_network::listen(server_end& server, const std::string& address) {
  return self_->listen(server, address);
}
void tcp_network::connect(client_end& client, const std::string& address) { self_->connect(client, address); }
void tcp_network::forget(endpoint& e) { self_->forget(e); }
void tcp_network::post(endpoint& e, std::function<void(instant)> work) { self_->post(e, std::move(work)); }
instant tcp_network::now() const noexcept { return self_->now(); }

} // namespace mailgrad::net
