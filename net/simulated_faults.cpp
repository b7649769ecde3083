#include <mailgrad/net/simulated_wire.hpp>

// What a test does to a process or its cable.

namespace mailgrad::net {

bool simulated_network::is_cut(const wire& w, bool up) const {
  const host* from = up ? w.client : w.server;
  const host* to = up ? w.server : w.client;
  return (from && from->cut_out) || (to && to->cut_in);
}

void simulated_network::kill(endpoint& e) { forget(e); }
void simulated_network::freeze(endpoint& e) { host_of(e).frozen = true; }

void simulated_network::wake(endpoint& e) {
  host& h = host_of(e);
  h.frozen = false;
  std::deque<std::function<void()>> postponed, to_open;
  postponed.swap(h.postponed);
  to_open.swap(h.to_open);
  for (const auto& open : to_open) open();
  const bool sockets_first = drawn(0.5); // a process that wakes finds its timers and its sockets due at once
  if (sockets_first) drain_all(h);
  for (const auto& work : postponed) work();
  drain_all(h);
  if (h.at) pump(h);
}

void simulated_network::drain_all(host& h) {
  for (auto& [id, w] : wires_)
    for (const bool up : {true, false})
      if (w->receiver(up) == &h) drain(*w, up);
}

void simulated_network::cut(endpoint& e) { host_of(e).cut_in = host_of(e).cut_out = true; }
void simulated_network::cut_outgoing(endpoint& e) { host_of(e).cut_out = true; }

void simulated_network::mend(endpoint& e) {
  host& h = host_of(e);
  h.cut_in = h.cut_out = false;
  for (auto& [id, w] : wires_)
    if (w->client == &h || w->server == &h)
      for (const bool up : {true, false}) mend_direction(*w, up);
}

void simulated_network::mend_direction(wire& w, bool up) {
  if (is_cut(w, up)) return;
  std::vector<packet> stalled;
  stalled.swap(w.way(up).stalled);
  for (packet& p : stalled) fly(w, up, std::move(p));
}

void simulated_network::slow_down(endpoint& e, std::uint64_t bytes_per_second) {
  host_of(e).reads = bytes_per_second;
}

} // namespace mailgrad::net
