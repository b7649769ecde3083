#pragma once

#include <cstddef>
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
/// Errors  std::invalid_argument in one line.
listen_address parse_listen_address(std::string_view text);

/// Reads the address of a server to connect to: as above, and names such as "server.local:7000", which
/// whoever connects looks up. The port is none but 0.
/// Errors  std::invalid_argument in one line.
listen_address parse_server_address(std::string_view text);

/// The address as parse_listen_address() reads it, and as a URL has it.
std::string to_string(const listen_address& a);

} // namespace mailgrad

namespace mailgrad::net {

/// The longest name of a server in the memory of one machine.
inline constexpr std::size_t most_memory_name = 64;

/// Whether it is "memory:NAME", where HOST:PORT stands elsewhere.
bool is_memory_address(std::string_view address) noexcept;
/// Whether it is "mpi:RANK".
bool is_mpi_address(std::string_view address) noexcept;

std::string memory_address(std::string_view name);
std::string mpi_address(int rank);

/// The name in "memory:NAME", of letters, digits, '.', '-' and '_'. To listen it may be empty: any that is
/// free.
/// Errors  std::invalid_argument in one line.
std::string parse_memory_listen_address(std::string_view address);
std::string parse_memory_server_address(std::string_view address);

/// The rank in "mpi:RANK".
/// Errors  std::invalid_argument in one line.
int parse_mpi_address(std::string_view address);

} // namespace mailgrad::net
