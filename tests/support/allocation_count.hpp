#pragma once

#include <cstdint>

namespace mailgrad::testing {

/// Whether this build can count: with glibc, and without a sanitizer, which has an allocator of its own.
bool can_count_allocations();

/// Blocks of memory that this thread has asked for so far, whoever asked: operator new, malloc and their kin,
/// in this program and in every library it uses. Only in a program that links allocation_count.cpp.
std::uint64_t allocations() noexcept;

/// How many allocations `work` makes.
template <class Work>
std::uint64_t allocations_of(Work&& work) {
  const std::uint64_t before = allocations();
  work();
  return allocations() - before;
}

} // namespace mailgrad::testing
