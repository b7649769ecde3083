#pragma once

#include <mailgrad/net/hello.hpp>

#include <string>

namespace mailgrad::net {

/// The advice for a client that was refused, with a colon before it: ": give --keys". It is empty if the
/// words of the refusal say all.
std::string advice_on(const refusal& why);

} // namespace mailgrad::net
