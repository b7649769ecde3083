#pragma once

#include <mailgrad/net/stream/stream_network.hpp>

namespace mailgrad::net {

struct memory_options {
  /// How long the thread reads again and again before it sleeps; an answer that finds it awake is heard
  /// sooner.
  std::chrono::microseconds spin = usual_spin();
  /// For how long connect() tries again where nobody listens, since a server may be started later.
  std::chrono::milliseconds patience{10'000};
};

/// Connections between processes of one machine and one user, by memory that both see.
///
/// Addresses are "memory:NAME"; to listen, "memory:" is any name that is free. It needs no keys: the kernel
/// names the user of a peer, and another user is a refusal to both.
/// Guarantees  those of stream_network. Nothing is left behind by a process, however it ends. A peer that
///             writes nonsense into the memory ends its own session alone.
/// Errors  as stream_network. listen(): std::system_error also if this system has no memory that can be
///         sealed.
/// Threads as stream_network.
class memory_network final : public stream_network {
public:
  /// Errors  std::invalid_argument if a time is negative. std::system_error if there is no thread to be had.
  explicit memory_network(const memory_options& options = {});

  /// Whether this system has memory that can be sealed, which Linux has since 3.17.
  static bool is_supported() noexcept;
};

} // namespace mailgrad::net
