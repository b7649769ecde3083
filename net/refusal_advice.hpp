#pragma once

#include <mailgrad/net/hello.hpp>

#include <string>

namespace mailgrad::net {

/// What somebody does about a refusal that a client has met, as ": give --keys"; nothing if its words say
/// all.
std::string advice_on(const refusal& why);

} // namespace mailgrad::net
