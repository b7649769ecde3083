#pragma once

#include <mailgrad/net/simulated_network.hpp>

#include <deque>
#include <optional>

// What a simulated network consists of. Of its own sources alone; not installed.

namespace mailgrad::net {

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
