#include "gpu_memory.hpp"

#include "sanitizers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace mailgrad::simulated_gpu {

namespace {

constexpr std::size_t alignment = 256; // of cudaMalloc
constexpr std::size_t margin = 4096;
constexpr std::size_t watched = 256; ///< bytes of a margin that are compared
constexpr unsigned char untouched = 0xa5;

/// What is asked of the heap for so many bytes of a GPU.
std::size_t with_margins(std::size_t bytes) {
  return (2 * margin + bytes + alignment - 1) / alignment * alignment;
}

void* aligned(std::size_t bytes) {
  void* made = nullptr;
  if (posix_memalign(&made, alignment, bytes) != 0) throw std::bad_alloc();
  return made;
}

void write(unsigned char* from, std::size_t bytes, unsigned char value) {
  for (std::size_t i = 0; i < bytes; ++i) from[i] = value; // no memset: ThreadSanitizer would see that one
}

bool holds(const unsigned char* from, std::size_t bytes) {
  return std::all_of(from, from + bytes, [](unsigned char c) { return c == untouched; });
}

} // namespace

void* gpu_memory::allocate(std::uint32_t gpu, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  auto* const raw = static_cast<unsigned char*>(aligned(with_margins(bytes)));
  unsigned char* const made = raw + margin;
  write(made - watched, watched, untouched);
  write(made + bytes, watched, untouched);
  write(made, bytes, 0xff);
  forbid(raw, with_margins(bytes));
  all_.emplace(reinterpret_cast<std::uintptr_t>(made), allocation{bytes, gpu, false});
  return made;
}

void* gpu_memory::allocate_pinned(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* const made = aligned(bytes);
  all_.emplace(reinterpret_cast<std::uintptr_t>(made), allocation{bytes, 0, true});
  return made;
}

bool gpu_memory::release(void* address) {
  const auto found = all_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == all_.end()) return false;
  auto* raw = static_cast<unsigned char*>(address);
  if (!found->second.pinned) {
    raw -= margin;
    allow(raw, with_margins(found->second.bytes));
  }
  all_.erase(found);
  std::free(raw);
  return true;
}

const std::pair<const std::uintptr_t, gpu_memory::allocation>* gpu_memory::around(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto next = all_.upper_bound(at);
  if (next == all_.begin()) return nullptr;
  --next;
  return at <= next->first + next->second.bytes ? &*next : nullptr;
}

const gpu_memory::allocation* gpu_memory::find(const void* address) const {
  const auto* const found = around(address);
  return found == nullptr ? nullptr : &found->second;
}

std::uintptr_t gpu_memory::end_of(const void* address) const {
  const auto* const found = around(address);
  return found == nullptr ? 0 : found->first + found->second.bytes;
}

std::size_t gpu_memory::bytes_of(std::uint32_t gpu) const {
  std::size_t bytes = 0;
  for (const auto& [at, a] : all_)
    if (!a.pinned && a.gpu == gpu) bytes += a.bytes;
  return bytes;
}

void gpu_memory::open() {
  for (const auto& [at, a] : all_)
    if (!a.pinned) allow(reinterpret_cast<const void*>(at), a.bytes);
}

void gpu_memory::close() {
  for (const auto& [at, a] : all_)
    if (!a.pinned) forbid(reinterpret_cast<const void*>(at), a.bytes);
}

std::optional<std::string> gpu_memory::damaged() {
  if (with_address_sanitizer) return std::nullopt; // which has said it already
  for (const auto& [at, a] : all_) {
    if (a.pinned) continue;
    auto* const begin = reinterpret_cast<unsigned char*>(at);
    const bool before = holds(begin - watched, watched), behind = holds(begin + a.bytes, watched);
    if (before && behind) continue;
    write(begin - watched, watched, untouched);
    write(begin + a.bytes, watched, untouched);
    return fmt::format("stored {} an allocation of {} bytes", before ? "behind" : "before", a.bytes);
  }
  return std::nullopt;
}

} // namespace mailgrad::simulated_gpu
