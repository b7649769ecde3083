#pragma once

#include "indices.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

namespace mailgrad::simulated_gpu {

/// A kernel with its arguments, as a stream keeps it.
struct kernel_launch {
  const char* name;
  dim3 grid, block;
  std::size_t shared_bytes;
  std::function<void()> thread; ///< what each thread runs
};

/// A copy of one argument, which is searched for addresses that a GPU cannot reach.
using argument_bytes = std::vector<std::byte>;

/// Queues it on a stream. An error waits for runtime::check_launch(), as in CUDA.
void queue_kernel(void* stream, kernel_launch launch, const std::vector<argument_bytes>& arguments);

/// The bytes of an argument. Gaps within a struct are zeroed, since old bytes in them could look like an
/// address; where the compiler cannot do that, a struct with gaps is not searched.
template <class T>
argument_bytes bytes_of(T copy) {
  constexpr bool whole = std::has_unique_object_representations_v<T>;
#if __has_builtin(__builtin_clear_padding)
  // Of a copy, since g++ 12 now and then takes half a pointer for a gap.
  if constexpr (!whole) __builtin_clear_padding(&copy);
#else
  if constexpr (!whole) return {};
#endif
  argument_bytes bytes(sizeof copy);
  std::memcpy(bytes.data(), &copy, sizeof copy);
  return bytes;
}

template <class... Parameters>
void launch(void* stream, const char* name, dim3 grid, dim3 block, std::size_t shared_bytes,
            void (*kernel)(Parameters...), std::type_identity_t<Parameters>... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "the arguments are copied to the GPU byte by byte");
  const std::vector<argument_bytes> bytes{bytes_of(arguments)...};
  queue_kernel(stream, {name, grid, block, shared_bytes, [=] { kernel(arguments...); }}, bytes);
}

/// The time in ns by the clock of the GPU that runs a kernel now.
std::uint64_t nanoseconds();

/// The shared memory of the block that runs now: as many bytes as its launch asked for, filled with ones.
void* shared_memory();

} // namespace mailgrad::simulated_gpu
