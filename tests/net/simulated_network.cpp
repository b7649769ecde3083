#include <mailgrad/tests/net/simulated_network.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

// What a test does to a process or its cable.

namespace mailgrad::net {

namespace {

constexpr std::size_t kernel_buffer = 512 << 10; // of both sides together
constexpr std::chrono::milliseconds first_resend{200};
constexpr std::size_t most_at_once = 100'000;

instant time_of(std::size_t count, std::uint64_t bytes_per_second) {
  return instant{static_cast<instant::rep>(count * 1'000'000'000 / bytes_per_second)};
}

} // namespace

simulated_network::simulated_network(std::uint64_t seed, weather w) : random_(seed), weather_(w) {}
simulated_network::~simulated_network() = default;

std::string simulated_network::listen(server_end& server, const std::string& address) {
  if (!servers_.emplace(address, &server).second)
    throw std::invalid_argument(
        fmt::format("simulated network: expected a free address, found a server at {}", address));
  host_of(server);
  return address;
}

void simulated_network::connect(client_end& client, const std::string& address) {
  host& from = host_of(client);
  from.client = &client;
  const auto found = servers_.find(address);
  const connection_id first{next_connection_};
  if (found == servers_.end()) {
    ++next_connection_;
    const std::string words = fmt::format("nobody listens at {}", address);
    client.tries_once() ? client.find_nobody(words, now_) : client.closed(first, words, now_);
    return;
  }
  open(from, host_of(*found->second));
}

connection_id simulated_network::open(host& from, host& to) {
  const connection_id id{next_connection_++};
  auto w = std::make_unique<wire>();
  w->id = id;
  w->client = &from;
  w->server = &to;
  wires_.emplace(id, std::move(w));
  // The handshake of TCP is the kernels', so a frozen server's connection stands as well.
  from.at->opened(id, "the server", now_);
  const auto hear = [this, id, &to] {
    if (to.at) to.at->opened(id, fmt::format("connection {}", id.value), now_);
  };
  if (to.frozen)
    to.to_open.push_back(hear);
  else
    hear();
  note(id.value);
  schedule_tick(to);
  pump(from);
  return id;
}

void simulated_network::forget(endpoint& e) {
  host& gone = host_of(e);
  for (auto& [id, w] : wires_)
    for (const bool up : {true, false})
      if (w->sender(up) == &gone) close(*w, up, "closed by the peer");
  for (auto& [id, w] : wires_)
    for (const bool up : {true, false})
      if (w->sender(up) == &gone) w->sender(up) = nullptr;
  std::erase_if(servers_, [&](const auto& entry) { return entry.second == &e; });
  gone.at = nullptr;
  gone.client = nullptr;
  auto node = hosts_.extract(&e);
  graves_.push_back(std::move(node.mapped()));
}

void simulated_network::post(endpoint& e, std::function<void(instant)> work) {
  host& h = host_of(e);
  at(now_, [this, &h, work = std::move(work)] {
    if (!h.at) return;
    const auto now = [this, &h, work] {
      if (!h.at) return;
      work(now_);
      if (h.at) pump(h);
    };
    if (h.frozen)
      h.postponed.push_back(now);
    else
      now();
  });
}

void simulated_network::run_until(instant moment) {
  std::size_t at_once = 0;
  while (!events_.empty() && events_.top().when <= moment) {
    const event e = events_.top();
    events_.pop();
    at_once = e.when > now_ ? 0 : at_once + 1;
    if (at_once > most_at_once)
      throw std::logic_error(
          "simulated network: an endpoint wants to be called at one moment again and again");
    now_ = std::max(now_, e.when);
    note(static_cast<std::uint64_t>(now_.count()));
    e.what();
  }
  now_ = std::max(now_, moment);
}

void simulated_network::at(instant moment, std::function<void()> work) {
  events_.push({moment, next_event_++, std::move(work)});
}

simulated_network::host& simulated_network::host_of(endpoint& e) {
  auto& h = hosts_[&e];
  if (!h) h = std::make_unique<host>();
  h->at = &e;
  return *h;
}

void simulated_network::pump(host& h) {
  if (h.frozen || !h.at) return;
  if (h.client && h.client->wants_bulk()) {
    const auto control =
        std::find_if(wires_.begin(), wires_.end(), [&](auto& x) { return x.second->client == &h; });
    h.client->begin_bulk({next_connection_});
    if (control != wires_.end() && control->second->server) open(h, *control->second->server);
  }
  std::vector<connection_id> mine;
  for (auto& [id, w] : wires_)
    if (w->client == &h || w->server == &h) mine.push_back(id);
  for (const connection_id id : mine) {
    wire& w = *wires_.at(id);
    const bool up = w.client == &h;
    while (h.at && w.sender(up) == &h && !w.way(up).ended && w.way(up).under_way < kernel_buffer) {
      const auto frame = h.at->next(id, now_);
      if (!frame) break;
      transmit(w, up, *frame);
    }
    if (h.at && w.sender(up) == &h && h.at->is_through(id)) {
      close(w, up, "closed by the peer");
      w.sender(up) = nullptr;
      h.at->closed(id, "closed here", now_);
    }
  }
  if (h.at) schedule_tick(h);
}

void simulated_network::transmit(wire& w, bool up, const outgoing& frame) {
  packet p;
  p.data.assign(frame.header.begin(), frame.header.end());
  p.data.insert(p.data.end(), frame.content().begin(), frame.content().end());
  if (drawn(weather_.drop)) return;
  if (drawn(weather_.damage)) p.data[random_() % p.data.size()] ^= std::byte{1} << (random_() % 8);
  if (drawn(weather_.garbage))
    for (std::uint64_t n = 1 + random_() % 40; n > 0; --n)
      p.data.push_back(static_cast<std::byte>(random_() % 256));
  const bool in_part = p.data.size() > 1 && drawn(weather_.truncate);
  if (in_part) p.data.resize(1 + random_() % (p.data.size() - 1));
  const bool twice = drawn(weather_.duplicate);
  if (twice) send_on(w, up, p);
  send_on(w, up, std::move(p));
  for (const bool way : {true, false})
    if (in_part) close(w, way, "connection reset by peer");
}

void simulated_network::send_on(wire& w, bool up, packet p) {
  direction& d = w.way(up);
  d.under_way += p.data.size();
  if (!p.data.empty() && !d.held && drawn(weather_.reorder)) {
    d.held = std::move(p);
    return;
  }
  p.index = d.next_out++;
  fly(w, up, std::move(p));
  if (!d.held) return;
  packet passed = std::move(*d.held);
  d.held.reset();
  passed.index = d.next_out++;
  fly(w, up, std::move(passed));
}

void simulated_network::fly(wire& w, bool up, packet p) {
  direction& d = w.way(up);
  if (is_cut(w, up)) return d.stalled.push_back(std::move(p));
  instant when = std::max(now_, d.wire_free);
  if (weather_.bytes_per_second > 0) when += time_of(p.data.size(), weather_.bytes_per_second);
  d.wire_free = when;
  when += weather_.delay;
  if (weather_.jitter.count() > 0)
    when +=
        instant{static_cast<instant::rep>(random_() % static_cast<std::uint64_t>(weather_.jitter.count()))};
  for (instant resend = first_resend; drawn(weather_.loss); resend *= 2) when += resend;
  at(when, [this, id = w.id, up, p = std::move(p)]() mutable { arrive(id, up, std::move(p)); });
}

void simulated_network::arrive(connection_id c, bool up, packet p) {
  wire& w = *wires_.at(c);
  direction& d = w.way(up);
  if (is_cut(w, up)) return d.stalled.push_back(std::move(p)); // the cut came while it was under way
  const std::uint64_t index = p.index;
  d.early.emplace(index, std::move(p));
  // As TCP does: what comes early waits for what was sent before it.
  while (!d.early.empty() && d.early.begin()->first == d.next_in) {
    d.inbox.push_back(std::move(d.early.begin()->second));
    d.early.erase(d.early.begin());
    ++d.next_in;
  }
  drain(w, up);
}

void simulated_network::drain(wire& w, bool up) {
  direction& d = w.way(up);
  while (!d.inbox.empty() && !d.reading) {
    host* to = w.receiver(up);
    if (!to || !to->at) return d.inbox.clear();
    if (to->frozen) return;
    if (to->reads > 0 && now_ < d.reader_free) {
      d.reading = true;
      at(d.reader_free, [this, &w, &d, up] {
        d.reading = false;
        drain(w, up);
      });
      return;
    }
    packet p = std::move(d.inbox.front());
    d.inbox.pop_front();
    if (to->reads > 0) {
      const std::size_t part = std::max<std::size_t>(to->reads / 20, 1); // what it reads in 50 ms
      if (p.data.size() > part) {                                        // the rest stays in the kernel
        d.inbox.push_front({bytes(p.data.begin() + static_cast<std::ptrdiff_t>(part), p.data.end()), ""});
        p.data.resize(part);
      }
      d.reader_free = now_ + time_of(p.data.size(), to->reads);
    }
    read(w, up, p);
  }
}

void simulated_network::read(wire& w, bool up, const packet& p) {
  host* to = w.receiver(up);
  const connection_id id = w.id;
  w.way(up).under_way -= std::min(w.way(up).under_way, p.data.size());
  note(p.data.size());
  if (p.data.empty()) {
    w.receiver(up) = nullptr;
    w.way(!up).ended = true;
    to->at->closed(id, p.last_words, now_);
  }
  for (byte_view left = p.data; !left.empty() && to->at && w.receiver(up) == to;) {
    byte_view cut = left.first(drawn(0.5) ? left.size() : 1 + random_() % left.size());
    if (const std::span<std::byte> place = to->at->place(id); !place.empty()) {
      cut = cut.first(std::min(cut.size(), place.size()));
      std::copy(cut.begin(), cut.end(), place.begin());
      to->at->filled(id, cut.size(), now_);
    } else {
      to->at->received(id, cut, now_);
    }
    left = left.subspan(cut.size());
  }
  if (to->at) pump(*to);
  if (host* from = w.sender(up)) pump(*from);
}

void simulated_network::close(wire& w, bool up, std::string_view words) {
  if (w.way(up).ended) return;
  w.way(up).ended = true;
  send_on(w, up, {{}, std::string(words)});
}

void simulated_network::schedule_tick(host& h) {
  const instant when = h.at->deadline();
  if (when == instant::max() || when >= h.tick_at) return;
  h.tick_at = std::max(when, now_);
  at(h.tick_at, [this, &h, planned = h.tick_at] {
    if (!h.at || h.tick_at != planned) return;
    h.tick_at = instant::max();
    const auto now = [this, &h] {
      if (!h.at) return;
      h.at->tick(now_);
      pump(h);
    };
    if (h.frozen)
      h.postponed.push_back(now);
    else
      now();
  });
}

bool simulated_network::drawn(double probability) {
  return probability > 0 && static_cast<double>(random_() >> 11) * 0x1p-53 < probability;
}

void simulated_network::note(std::uint64_t what) noexcept { trace_ = (trace_ ^ what) * 0x100000001b3; }

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
