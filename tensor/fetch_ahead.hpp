#pragma once

#include <cstddef>
#include <cstdint>

namespace mailgrad {

/// Begins to fetch memory into the caches of the processor, for a reader that comes soon. Nothing changes,
/// and the memory may be anybody's. Of a large piece only the begin is fetched, since a processor foresees by
/// itself what a reader of long rows wants next.
inline void fetch_ahead(const void* memory, std::size_t bytes) noexcept {
  constexpr std::size_t line = 64;
  constexpr std::size_t most = 64 * line;
  const std::size_t before = reinterpret_cast<std::uintptr_t>(memory) % line;
  const auto* first = static_cast<const std::byte*>(memory) - before;
  const std::size_t end = before + (bytes < most ? bytes : most);
  for (std::size_t at = 0; at < end; at += line) __builtin_prefetch(first + at);
}
template <class T>
void fetch_ahead(const T& object) noexcept {
  fetch_ahead(&object, sizeof object);
}

} // namespace mailgrad
