#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace mailgrad::simulated_gpu {

/// Which blocks, and which threads of a block, run first.
enum class thread_order : std::uint8_t { forward, backward, shuffled };

/// Whether all threads get to a barrier before one goes on behind it, or one warp gets as far as it can
/// before another begins.
enum class reach : std::uint8_t { breadth_first, one_warp_far };

/// An order that a GPU may run the threads of a kernel in.
struct schedule {
  thread_order order = thread_order::forward;
  reach far = reach::breadth_first;
  std::uint64_t seed = 1; ///< of a shuffled order
  friend bool operator==(const schedule&, const schedule&) = default;
};

inline constexpr std::array<schedule, 6> all_schedules{{
    {thread_order::forward, reach::breadth_first},
    {thread_order::backward, reach::breadth_first},
    {thread_order::shuffled, reach::breadth_first},
    {thread_order::forward, reach::one_warp_far},
    {thread_order::backward, reach::one_warp_far},
    {thread_order::shuffled, reach::one_warp_far},
}};

} // namespace mailgrad::simulated_gpu
