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

static void* counted(std::size_t size) {
  asked.total += size;
  asked.largest = std::max(asked.largest, size);
  if (void* memory = std::malloc(std::max<std::size_t>(size, 1))) return memory;
  throw std::bad_alloc();
}

} // namespace mailgrad::testing

void* operator new(std::size_t size) { return mailgrad::testing::counted(size); }
void* operator new[](std::size_t size) { return mailgrad::testing::counted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
