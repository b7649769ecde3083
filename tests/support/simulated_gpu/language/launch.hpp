#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <type_traits>
#include <vector>

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): the names are those of CUDA

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

// There is no __shared__: the shared memory of our kernels is dynamic, so that its size is exact.

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
constexpr float2 make_float2(float x, float y) { return {x, y}; }
constexpr float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
constexpr uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// Those of the thread that runs now; the scheduler sets them at each switch.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

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

/// A copy of 4 or 16 bytes that a thread has begun and not waited for.
struct later_copy {
  void* to;
  const void* from;
  unsigned bytes;
  bool there; ///< else zeros are stored
  std::source_location where;
};

/// Does a copy. It is called by the two functions below, but compiled with the kernels, whose loads and
/// stores these are to sanitizers.
using carry_out_copy = void (*)(void* to, const void* from, unsigned bytes, bool there);

/// Begins a copy of the thread that runs now. It is done at once or when it is waited for, as a GPU may do
/// either.
void begin_copy(const later_copy& c, carry_out_copy carry_out);
/// Does those of the thread that runs now that are still to be done.
void finish_copies(carry_out_copy carry_out);

inline void carry_out(void* to, const void* from, unsigned bytes, bool there) {
  const auto copy = [=](const auto& zeros) {
    using numbers = std::remove_cvref_t<decltype(zeros)>;
    *static_cast<numbers*>(to) = there ? *static_cast<const numbers*>(from) : zeros;
  };
  if (bytes == sizeof(float4)) return copy(float4{});
  copy(0.0F);
}

inline void copy_later(void* to, const void* from, unsigned bytes, bool there, std::source_location where) {
  begin_copy({to, from, bytes, there, where}, carry_out);
}
inline void wait_for_copies() { finish_copies(carry_out); }

} // namespace mailgrad::simulated_gpu
