#pragma once

#include <cstdint>

namespace mailgrad::simulated_card {

/// The card that this thread launches on, as CUDA keeps it: 0 until a call names another. A launch on a
/// stream of another card is refused.
inline thread_local std::uint32_t current_card = 0;

} // namespace mailgrad::simulated_card
