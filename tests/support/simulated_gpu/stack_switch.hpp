#pragma once

#include <cstddef>

namespace mailgrad::simulated_gpu {

/// Prepares a stack on which `begin` runs when it is switched to; returns what switch_stack() takes for it.
void* prepare_stack(void* bottom, std::size_t bytes, void (*begin)());

/// Keeps the registers and the place of the stack in `from`, and goes on with the stack `to`.
void switch_stack(void** from, void* to);

/// Lets go of what prepare_stack() or switch_stack() made.
void forget_stack(void* top) noexcept;

} // namespace mailgrad::simulated_gpu
