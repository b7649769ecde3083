#include <mailgrad/net/memory/shared_region.hpp>

#include <mailgrad/net/ending.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace mailgrad::net {

namespace {

constexpr std::size_t counter_bytes = 4 << 10; // a page
static_assert(sizeof(ring_counters) <= counter_bytes);
constexpr int needed_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::size_t region_bytes(std::size_t ring_bytes) noexcept { return 2 * (counter_bytes + ring_bytes); }

[[noreturn]] void fail_in_system(const char* what) {
  throw std::system_error(errno, std::generic_category(), fmt::format("shared memory: {}", what));
}

} // namespace

shared_region shared_region::make(std::size_t ring_bytes) {
  descriptor memory(memfd_create("mailgrad", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) fail_in_system("this system has none for two processes; use HOST:PORT");
  if (ftruncate(memory.number(), static_cast<off_t>(region_bytes(ring_bytes))) != 0 ||
      fcntl(memory.number(), F_ADD_SEALS, needed_seals) != 0)
    fail_in_system("there is no more of it");
  shared_region made(memory.number(), ring_bytes);
  made.memory_ = std::move(memory);
  return made;
}

shared_region shared_region::of_peer(int memory, std::size_t ring_bytes) {
  const int seals = fcntl(memory, F_GET_SEALS);
  if (seals < 0 || (seals & needed_seals) != needed_seals)
    throw protocol_error("shared memory: expected memory whose length is sealed, found another descriptor");
  if (ring_bytes < least_ring_bytes || ring_bytes > most_ring_bytes || ring_bytes % counter_bytes != 0)
    throw protocol_error(fmt::format("shared memory: expected rings of {} to {} bytes, found {}",
                                     least_ring_bytes, most_ring_bytes, ring_bytes));
  struct stat found {};
  if (fstat(memory, &found) != 0 || found.st_size != static_cast<off_t>(region_bytes(ring_bytes)))
    throw protocol_error(fmt::format("shared memory: expected {} bytes for two rings, found {}",
                                     region_bytes(ring_bytes), found.st_size));
  return shared_region(memory, ring_bytes);
}

shared_region::shared_region(int memory, std::size_t ring_bytes) : ring_bytes_(ring_bytes) {
  void* at = mmap(nullptr, region_bytes(ring_bytes), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED) fail_in_system("it cannot be mapped");
  begin_ = static_cast<std::byte*>(at);
}

shared_region::~shared_region() {
  if (begin_) munmap(begin_, region_bytes(ring_bytes_));
}

shared_region::shared_region(shared_region&& other) noexcept
    : memory_(std::move(other.memory_)), begin_(std::exchange(other.begin_, nullptr)),
      ring_bytes_(other.ring_bytes_) {}

shared_region& shared_region::operator=(shared_region&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(begin_, other.begin_);
  std::swap(ring_bytes_, other.ring_bytes_);
  return *this;
}

ring_memory shared_region::ring(std::size_t n) const noexcept {
  std::byte* const at = begin_ + n * (counter_bytes + ring_bytes_);
  return {reinterpret_cast<ring_counters*>(at), {at + counter_bytes, ring_bytes_}};
}

} // namespace mailgrad::net
