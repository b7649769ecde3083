#pragma once

#include <chrono>

namespace mailgrad::net {

/// For how long a network's thread stays awake when nothing came: 50 us; nothing on a machine with one or two
/// processors, where a thread that waits awake takes time from those that compute.
std::chrono::microseconds usual_spin() noexcept;

} // namespace mailgrad::net
