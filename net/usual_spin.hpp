#pragma once

#include <chrono>

namespace mailgrad::net {

/// For how long a network's thread stays awake when nothing came: 50 us; nothing on a machine with one
/// processor, where who waits awake keeps the other from answering.
std::chrono::microseconds usual_spin() noexcept;

} // namespace mailgrad::net
