#pragma once

#include "language/launch.hpp"
#include "schedule.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace mailgrad::simulated_gpu {

/// Runs all blocks of a kernel, one after the other; returns what went wrong, if anything did. Shared memory
/// of each block is memory of its own, of exact size, and full of ones: not-a-numbers.
std::optional<std::string> run_grid(const kernel_launch& launch, const schedule& order, std::uint64_t number);

/// Why a GPU refuses such a grid, if it does.
std::optional<std::string> refusal_of(const kernel_launch& launch);

} // namespace mailgrad::simulated_gpu
