#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace mailgrad::lab {

/// Calls `run` with each cell, on so many threads at once, in the order in which they stand. No further cell
/// is begun when `stop` returns true. Returns when all that were begun have ended.
///
/// Errors  what `run` throws first; no further cell is begun then.
/// Threads `run` and `stop` are called on several.
void run_on_threads(std::span<const std::size_t> cells, unsigned threads,
                    const std::function<void(std::size_t)>& run, const std::function<bool()>& stop);

} // namespace mailgrad::lab
