#pragma once

#include <set>
#include <thread>

namespace mailgrad::simulated_gpu {

/// The threads of which a call waited for a GPU, or might have, since this was asked last. Releases of
/// memory do not count.
std::set<std::thread::id> take_waiting_threads();

} // namespace mailgrad::simulated_gpu
