#pragma once

#include <cstdint>
#include <optional>

namespace mailgrad::simulated_gpu {

/// The GPU that this thread calls and launches on; none until a call names one. CUDA would take the first
/// GPU then, and wake it, so such a call is refused. So is a launch on a stream of another GPU.
inline thread_local std::optional<std::uint32_t> current_gpu;

} // namespace mailgrad::simulated_gpu
