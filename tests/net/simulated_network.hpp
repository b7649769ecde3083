#pragma once

#include <mailgrad/net/network.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <vector>

namespace mailgrad::net {

/// What a connection does to the frames on it. Probabilities are those of each frame.
struct weather {
  instant delay = std::chrono::milliseconds{1};
  instant jitter{0};                  ///< added to the delay, anything up to it
  double loss = 0;                    ///< sent again, as TCP does: later, and so are those behind it
  double duplicate = 0;               ///< comes twice
  double drop = 0;                    ///< never comes, which TCP does not do
  double reorder = 0;                 ///< comes later than the next one, which TCP does not do
  double damage = 0;                  ///< comes with another bit
  double truncate = 0;                ///< comes in part, and then both ends find the connection closed
  double garbage = 0;                 ///< comes with other bytes behind it
  std::uint64_t bytes_per_second = 0; ///< 0: no limit
};

/// A network in one thread on a virtual clock. Whatever happens is drawn from a seed, so a seed repeats its
/// trace.
///
/// Connections behave as those of TCP do, with so much of buffers in the kernels as a sender finds there, and
/// with faults on request: bytes come in drawn cuts, peers are killed, frozen and cut off.
/// Threads one caller; endpoints are called from run_until().
class simulated_network final : public network {
public:
  explicit simulated_network(std::uint64_t seed, weather w = {});
  ~simulated_network() override;

  std::string listen(server_end& server, const std::string& address) override;
  void connect(client_end& client, const std::string& address) override;
  void forget(endpoint& e) override;
  void post(endpoint& e, std::function<void(instant)> work) override;

  instant now() const noexcept override { return now_; }
  /// Drawn from the seed.
  std::uint64_t draw_key() override { return random_(); }
  /// When the next thing happens; max() if nothing will.
  instant next_event() const { return events_.empty() ? instant::max() : events_.top().when; }
  /// Lets time pass up to this moment.
  /// Errors  std::logic_error if time stands still, since an endpoint has a deadline that tick() does not
  ///         move.
  void run_until(instant moment);
  /// Does something at a moment to come.
  void at(instant moment, std::function<void()> work);
  /// A digest of all that has happened.
  std::uint64_t trace() const noexcept { return trace_; }

  void set_weather(const weather& w) noexcept { weather_ = w; }
  /// The process is gone: its connections close, unless it is cut off too.
  void kill(endpoint& e);
  /// The process stands still, and what comes for it waits.
  void freeze(endpoint& e);
  void wake(endpoint& e);
  /// Nothing goes from or to it, and nobody is told. What was sent meanwhile comes after mend().
  void cut(endpoint& e);
  /// Nothing goes from it, but what others send comes.
  void cut_outgoing(endpoint& e);
  void mend(endpoint& e);
  /// It reads no more than so many bytes a second of each connection; 0: no limit.
  void slow_down(endpoint& e, std::uint64_t bytes_per_second);

private:
  struct host;
  struct direction;
  struct wire;
  struct packet;
  struct event {
    instant when;
    std::uint64_t number; ///< events of one moment happen in the order in which they were made
    std::function<void()> what;
    friend bool operator>(const event& a, const event& b) {
      return a.when != b.when ? a.when > b.when : a.number > b.number;
    }
  };

  host& host_of(endpoint& e);
  connection_id open(host& from, host& to);
  void pump(host& h);
  void transmit(wire& w, bool up, const outgoing& frame);
  void send_on(wire& w, bool up, packet p);
  void fly(wire& w, bool up, packet p);
  void arrive(connection_id c, bool up, packet p);
  void drain(wire& w, bool up);
  void drain_all(host& h);
  void read(wire& w, bool up, const packet& p);
  void close(wire& w, bool up, std::string_view words);
  void schedule_tick(host& h);
  void mend_direction(wire& w, bool up);
  bool is_cut(const wire& w, bool up) const;
  bool drawn(double probability);
  void note(std::uint64_t what) noexcept;

  std::mt19937_64 random_;
  weather weather_;
  instant now_{std::chrono::seconds{1}};
  std::uint64_t next_event_ = 0, next_connection_ = 1, trace_ = 0xcbf29ce484222325;
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::map<endpoint*, std::unique_ptr<host>> hosts_;
  std::vector<std::unique_ptr<host>> graves_; ///< events may still refer to them
  std::map<connection_id, std::unique_ptr<wire>> wires_;
  std::map<std::string, server_end*> servers_;
};

/// Either bytes or, without any, the end of a direction.
struct simulated_network::packet {
  bytes data;
  std::string last_words;
  std::uint64_t index = 0; ///< among those of its direction
};

struct simulated_network::host {
  endpoint* at = nullptr;
  client_end* client = nullptr; ///< if it is one
  bool frozen = false, cut_in = false, cut_out = false;
  std::uint64_t reads = 0; ///< bytes a second; 0: no limit
  instant tick_at = instant::max();
  std::deque<std::function<void()>> postponed; ///< while it is frozen
  std::deque<std::function<void()>> to_open;   ///< connections that stand, and that it has not heard of
};

/// One way of a connection.
struct simulated_network::direction {
  instant wire_free{0}, reader_free{0};
  std::size_t under_way = 0;
  std::uint64_t next_out = 0, next_in = 0;
  std::optional<packet> held;            ///< the next one passes it
  std::vector<packet> stalled;           ///< behind a cut
  std::map<std::uint64_t, packet> early; ///< arrived, when one before them has not
  std::deque<packet> inbox;              ///< arrived, and not read yet
  bool reading = false;                  ///< an event to read is under way
  bool ended = false;                    ///< no more is sent
};

/// Up leads to the server.
struct simulated_network::wire {
  connection_id id;
  host* client = nullptr; ///< null once it has let the connection go
  host* server = nullptr;
  direction up, down;

  direction& way(bool is_up) { return is_up ? up : down; }
  host*& sender(bool is_up) { return is_up ? client : server; }
  host*& receiver(bool is_up) { return is_up ? server : client; }
};

} // namespace mailgrad::net
