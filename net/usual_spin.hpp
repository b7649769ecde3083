#pragma once

#include <chrono>

namespace mailgrad::net {

/// For how long a network's thread stays awake when nothing came: 50 us; nothing in a process that may use
/// one or two cores, where a thread that waits awake takes time from those that compute.
std::chrono::microseconds usual_spin();

} // namespace mailgrad::net
