#pragma once

#include <cstdint>
#include <optional>

namespace mailgrad::simulated_card {

/// The card that this thread calls and launches on; none until a call names one. CUDA would take the first
/// card then, and wake it, so such a call is refused. So is a launch on a stream of another card.
inline thread_local std::optional<std::uint32_t> current_card;

} // namespace mailgrad::simulated_card
