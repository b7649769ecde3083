#include <mailgrad/tests/support/allocated_bytes.hpp>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace mailgrad::testing {
namespace {
constinit thread_local asked_bytes asked;
}

asked_bytes take_asked_bytes() noexcept { return std::exchange(asked, asked_bytes{}); }

static void* counted_or_null(std::size_t size) noexcept {
  asked.total += size;
  asked.largest = std::max(asked.largest, size);
  return std::malloc(std::max<std::size_t>(size, 1));
}

static void* counted(std::size_t size) {
  if (void* memory = counted_or_null(size)) return memory;
  throw std::bad_alloc();
}

} // namespace mailgrad::testing

void* operator new(std::size_t size) { return mailgrad::testing::counted(size); }
void* operator new[](std::size_t size) { return mailgrad::testing::counted(size); }
/// Of the library's sorts, which give back by the plain operator below.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return mailgrad::testing::counted_or_null(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
