#pragma once

#include <mailgrad/net/network.hpp>

#include <memory>
#include <string_view>

namespace mailgrad::net {

/// The network of an address that needs no keys: shared memory for "memory:NAME", else TCP on this machine.
///
/// Errors  std::system_error if there is no thread to be had. The address is not checked.
std::shared_ptr<network> usual_network(std::string_view address);

} // namespace mailgrad::net
