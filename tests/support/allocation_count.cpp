#include <mailgrad/tests/support/allocation_count.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

// The functions below take the place of the C library's in the whole program, count, and pass the request on.

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MAILGRAD_COUNTS_ALLOCATIONS 1
#endif

namespace mailgrad::testing {

namespace {
constinit thread_local std::uint64_t count = 0;
} // namespace

std::uint64_t allocations() noexcept { return count; }

#ifdef MAILGRAD_COUNTS_ALLOCATIONS
bool can_count_allocations() { return true; }
inline void count_one() noexcept { ++count; }
#else
bool can_count_allocations() { return false; }
#endif

} // namespace mailgrad::testing

#ifdef MAILGRAD_COUNTS_ALLOCATIONS

extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
  mailgrad::testing::count_one();
  return __libc_malloc(size);
}
void* calloc(std::size_t items, std::size_t size) {
  mailgrad::testing::count_one();
  return __libc_calloc(items, size);
}
void* realloc(void* memory, std::size_t size) {
  mailgrad::testing::count_one();
  return __libc_realloc(memory, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  mailgrad::testing::count_one();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  *memory = memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}

#endif
