#pragma once

#include <mailgrad/net/stream/stream_network.hpp>
#include <mailgrad/net/tls/tls_keys.hpp>

namespace mailgrad::net {

struct tcp_options {
  /// How long the thread reads again and again before it sleeps; an answer that finds it awake is heard
  /// sooner.
  std::chrono::microseconds spin = usual_spin();
  /// For how long connect() tries again where nobody listens, or where a tunnel closes what it has taken,
  /// since a server may be started later.
  std::chrono::milliseconds patience{10'000};
  /// Told on the network's thread, once for each connect(), what it waits for behind such a tunnel.
  std::function<void(std::string words)> on_wait{};
  /// Every connection is encrypted, and its peer has to have the same kind of keys. None: plain, and on this
  /// machine alone.
  std::shared_ptr<const tls_keys> keys{};
};

/// Connections of TCP.
///
/// Addresses are those of parse_listen_address(), and connect() looks up names besides.
/// Errors  as stream_network. listen(): std::invalid_argument also for an address that is not of this machine
///         alone if there are no keys. A peer with other keys is a refusal to both.
/// Threads as stream_network.
class tcp_network final : public stream_network {
public:
  /// Errors  std::invalid_argument if a time is negative. std::system_error if there is no thread to be had.
  explicit tcp_network(const tcp_options& options = {});
};

} // namespace mailgrad::net
