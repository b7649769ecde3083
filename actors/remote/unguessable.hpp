#pragma once

#include <cstdint>
#include <random>

namespace mailgrad::remote {

/// A number that nobody can guess, for a session.
///
/// Threads any.
inline std::uint64_t unguessable() {
  thread_local std::random_device source;
  return std::uint64_t{source()} << 32 | source();
}

} // namespace mailgrad::remote
