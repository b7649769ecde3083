#pragma once

#include <mailgrad/tensor/mark.hpp>

#include <cstdint>

namespace mailgrad::cuda {

/// Returns a mark that passes when all that is queued on `stream` of card `card` so far is done.
///
/// Errors  device_error.
mark record_mark(std::uint32_t card, void* stream);

/// Lets work that is queued later on `stream` wait for `m`, which is of any stream of a card.
///
/// Errors  device_error, also for a mark of something else.
void wait_for_mark(void* stream, const mark& m);

} // namespace mailgrad::cuda
