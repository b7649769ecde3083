#pragma once

#include <mailgrad/data/batch.hpp>

#include <cstddef>

namespace mailgrad {

/// Copies `count` samples of a batch from `first` on into a batch of their own. The memory of `out` is kept
/// where the shapes already fit. A slice of a sparse batch has as much room for entries as the whole.
///
/// Errors  std::out_of_range if `whole` has no such samples.
void slice_batch(const batch& whole, std::size_t first, std::size_t count, batch& out);

} // namespace mailgrad
