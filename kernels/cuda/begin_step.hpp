#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstdint>

namespace mailgrad::cuda {

/// Sets the number that random operations on `s` draw from and the ticket of the step's record, notes when
/// the card begins the step, and waits for nothing.
///
/// A graph that is captured across this call would set these very numbers at each launch, so a caller that
/// replays a step calls it before the graph.
void begin_step(const cuda_stream& s, std::uint64_t step, std::uint64_t ticket = 0);

} // namespace mailgrad::cuda
