#pragma once

#include <cstddef>

namespace mailgrad {

/// The number of calls of operator new in this program so far.
std::size_t allocations() noexcept;

} // namespace mailgrad
