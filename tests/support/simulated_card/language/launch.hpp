#pragma once

#include "indices.hpp"

#include <cstddef>
#include <functional>
#include <type_traits>
#include <vector>

namespace mailgrad::simulated_card {

/// A kernel with its arguments, as a stream keeps it.
struct kernel_launch {
  const char* name;
  dim3 grid, block;
  std::size_t shared_bytes;
  std::function<void()> thread; ///< what each thread runs
};

/// A copy of one argument, which is searched for addresses that a card cannot reach.
struct argument_bytes {
  const void* address;
  std::size_t bytes;
};

/// Queues it on a stream. An error waits for runtime::check_launch(), as in CUDA.
void queue_kernel(void* stream, kernel_launch launch, const std::vector<argument_bytes>& arguments);

/// What is known of an argument without its type: a pointer, or a struct whose gaps are zeroed.
template <class T>
argument_bytes bytes_of([[maybe_unused]] T& argument) {
  if constexpr (std::is_pointer_v<T>) return {&argument, sizeof argument};
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&argument);
  return {&argument, sizeof argument};
#else
  return {&argument, 0}; // old bytes in a gap could look like an address
#endif
}

template <class... Parameters>
void launch(void* stream, const char* name, dim3 grid, dim3 block, std::size_t shared_bytes,
            void (*kernel)(Parameters...), std::type_identity_t<Parameters>... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "the arguments are copied to the card byte by byte");
  const std::vector<argument_bytes> bytes{bytes_of(arguments)...};
  queue_kernel(stream, {name, grid, block, shared_bytes, [=] { kernel(arguments...); }}, bytes);
}

/// The shared memory of the block that runs now: as many bytes as its launch asked for, filled with ones.
void* shared_memory();

} // namespace mailgrad::simulated_card
