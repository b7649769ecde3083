#pragma once

#include <mailgrad/net/network.hpp>
#include <mailgrad/tests/net/simulated_network.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::systems {

/// The network of all simulated processes, and whether its time passes just now.
struct wires {
  wires(std::uint64_t seed, net::weather w) : network(seed, w) {}

  void run_until(net::instant moment) {
    runs = true;
    network.run_until(moment);
    runs = false;
  }

  net::simulated_network network;
  bool runs = false;
  std::string left_over{};                ///< processes that had ended while actors of theirs had not
  std::function<bool()> server_is_well{}; ///< and its hosts, so whoever is well is heard
  std::string broken{};                   ///< the first promise that a message has broken
};

/// The network as one process has it: what happens to the process happens to all its endpoints.
///
/// Threads one.
class process_network final : public net::network {
public:
  explicit process_network(std::shared_ptr<wires> all) : all_(std::move(all)) {}

  std::string listen(net::server_end& server, const std::string& address) override {
    ends_.push_back(&server);
    return all_->network.listen(server, address);
  }
  void connect(net::client_end& client, const std::string& address) override {
    if (dead_) return;
    ends_.push_back(&client);
    all_->network.connect(client, address);
    if (cut_) all_->network.cut(client);
  }
  void forget(net::endpoint& e) override {
    if (std::erase(ends_, &e) == 0 || dead_) return;
    if (!all_->runs) all_->run_until(now()); // what was posted before
    all_->network.forget(e);
  }
  net::instant now() const noexcept override { return all_->network.now(); }
  std::uint64_t draw_key() override { return all_->network.draw_key(); }
  /// A process that is dead works for itself alone: its sessions end, and nobody hears of it.
  void post(net::endpoint& e, std::function<void(net::instant)> work) override {
    if (std::ranges::find(ends_, &e) == ends_.end()) return;
    dead_ ? work(now()) : all_->network.post(e, std::move(work));
  }

  void kill() {
    if (std::exchange(dead_, true)) return;
    for (net::endpoint* e : ends_) all_->network.kill(*e);
  }
  void freeze() { each(&net::simulated_network::freeze); }
  void wake() { each(&net::simulated_network::wake); }
  void cut(bool both_ways) {
    cut_ = both_ways;
    each(both_ways ? &net::simulated_network::cut : &net::simulated_network::cut_outgoing);
  }
  void mend() {
    cut_ = false;
    each(&net::simulated_network::mend);
  }

private:
  void each(void (net::simulated_network::*what)(net::endpoint&)) {
    if (dead_) return;
    for (net::endpoint* e : ends_) (all_->network.*what)(*e);
  }

  std::shared_ptr<wires> all_;
  std::vector<net::endpoint*> ends_; ///< in the order of their coming
  bool dead_ = false, cut_ = false;
};

} // namespace mailgrad::systems
