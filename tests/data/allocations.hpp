#pragma once

#include <cstddef>

namespace mailgrad {

/// Calls of operator new so far, in this program.
std::size_t allocations() noexcept;

} // namespace mailgrad
