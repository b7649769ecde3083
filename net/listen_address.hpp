#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mailgrad {

/// Where a server listens, or is found.
struct listen_address {
  std::string host;       ///< a number: "127.0.0.1" or "::1"; of a server to connect to, also a name
  std::uint16_t port = 0; ///< 0: any that is free

  /// Whether only this machine can connect.
  bool is_loopback() const;
  /// Whether it means every network of a machine, as 0.0.0.0 and [::] do, and so is none to connect to.
  bool is_every_network() const;

  friend bool operator==(const listen_address&, const listen_address&) = default;
};

/// Reads "127.0.0.1:8080", "[::1]:0", "localhost:80" (which is 127.0.0.1) or "0.0.0.0:80". Other names are
/// not looked up, because one name may mean several addresses.
///
/// Errors  std::invalid_argument in one line.
listen_address parse_listen_address(std::string_view text);

/// Reads the address of a server to connect to: as above, and names such as "server.local:7000", which
/// whoever connects looks up. The port is none but 0.
///
/// Errors  std::invalid_argument in one line.
listen_address parse_server_address(std::string_view text);

/// The address as parse_listen_address() reads it, and as a URL has it.
std::string to_string(const listen_address& a);

} // namespace mailgrad
