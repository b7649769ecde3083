#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mailgrad::net {

/// The longest name of a server in the memory of one machine.
inline constexpr std::size_t most_memory_name = 64;

/// Whether an address is of the memory of this machine: "memory:NAME", where HOST:PORT stands elsewhere.
bool is_memory_address(std::string_view address) noexcept;

/// The name in "memory:NAME", of letters, digits, '.', '-' and '_'. To listen it may be empty: any that is
/// free.
///
/// Errors  std::invalid_argument in one line.
std::string parse_memory_listen_address(std::string_view address);
std::string parse_memory_server_address(std::string_view address);

/// "memory:NAME"
std::string memory_address(std::string_view name);

} // namespace mailgrad::net
