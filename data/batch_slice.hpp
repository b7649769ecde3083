#pragma once

#include <mailgrad/data/batch.hpp>

#include <cstddef>

namespace mailgrad {

/// Copies `count` samples of a batch from `first` on into a batch of their own, keeping the memory of `out`
/// where the shapes already fit. Of a sparse batch the entries have as much room as in the whole.
///
/// Errors  std::out_of_range if `whole` has no such samples.
void slice_batch(const batch& whole, std::size_t first, std::size_t count, batch& out);

} // namespace mailgrad
