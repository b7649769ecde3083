#pragma once

#include <cstdint>

namespace mailgrad::testing {

/// Whether this build can count allocations. That needs glibc, and no sanitizer, because a sanitizer has its
/// own allocator.
bool can_count_allocations();

/// The number of blocks of memory that this thread has allocated so far. It counts operator new, malloc and
/// similar functions, in this program and in every library. The program must link allocation_count.cpp.
std::uint64_t allocations() noexcept;

/// The number of allocations that `work` makes.
template <class Work>
std::uint64_t allocations_of(Work&& work) {
  const std::uint64_t before = allocations();
  work();
  return allocations() - before;
}

} // namespace mailgrad::testing
