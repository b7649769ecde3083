#pragma once

#include <mailgrad/net/network.hpp>

#include <memory>
#include <string_view>

namespace mailgrad::net {

/// The network of an address that needs no keys: shared memory for "memory:NAME", else TCP on this machine.
///
/// Errors  std::system_error if there is no thread to be had. The address is not checked.
std::shared_ptr<network> usual_network(std::string_view address);

/// The network by which a process that uses `own` for the address `server` reaches another address, or
/// listens at it: the same where both are memory or both are not, since it has the keys; else the usual one.
std::shared_ptr<network> fitting_network(const std::shared_ptr<network>& own, std::string_view server,
                                         std::string_view address);

} // namespace mailgrad::net
