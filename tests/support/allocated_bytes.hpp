#pragma once

#include <cstddef>

namespace mailgrad::testing {

/// Bytes that this thread has asked operator new for, in all and at once. The program must link
/// allocated_bytes.cpp, which works under sanitizers too.
struct asked_bytes {
  std::size_t total = 0;
  std::size_t largest = 0;
};

/// What was asked for since the last call.
asked_bytes take_asked_bytes() noexcept;

} // namespace mailgrad::testing
