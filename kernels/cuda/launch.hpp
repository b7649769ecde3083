#pragma once

#include <mailgrad/kernels/cuda/elements.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/kernels/cuda/stream_status.hpp>
#include <mailgrad/kernels/gpu_body.hpp>

#include <cuda_runtime.h> // the language of kernels; for tests, that of the simulated GPU

#include <algorithm>
#include <tuple>

/// What every .cu includes: how a kernel is launched, and what kernels share.

namespace mailgrad::cuda {

inline constexpr unsigned threads_per_block = 256;
inline constexpr unsigned warp_size = 32;

/// Those of an H100. What follows from it decides in which order sums are added, so it is the same for every
/// GPU.
inline constexpr std::size_t multiprocessors = 132;
/// So many blocks of 256 threads keep every multiprocessor busy.
inline constexpr std::size_t busy_blocks = multiprocessors * 8;

/// Blocks for a grid-stride loop over n items, at most as many as keep all multiprocessors busy twice over.
inline unsigned blocks_for(std::size_t n, std::size_t per_block = threads_per_block) {
  constexpr std::size_t most = busy_blocks * 2;
  return static_cast<unsigned>(std::clamp<std::size_t>((n + per_block - 1) / per_block, 1, most));
}

/// Queues `kernel` on `s`. The arguments are converted to the kernel's parameters.
///
/// `name` stands in errors. `shared_bytes` is what shared_memory() of each block may use: at most 99 KiB, so
/// that every GPU since compute capability 8.0 has them.
template <class... Parameters, class... Arguments>
void launch(const cuda_stream& s, const char* name, dim3 grid, dim3 block, std::size_t shared_bytes,
            void (*kernel)(Parameters...), const Arguments&... arguments) {
  runtime::make_current(s.device);
#ifdef __CUDACC__
  constexpr std::size_t unasked = 48 << 10;
  if (shared_bytes > unasked)
    runtime::allow_shared_bytes(reinterpret_cast<const void*>(kernel), shared_bytes);
  kernel<<<grid, block, shared_bytes, static_cast<cudaStream_t>(s.stream)>>>(arguments...);
#else
  simulated_gpu::launch(s.stream, name, grid, block, shared_bytes, kernel, Parameters(arguments)...);
#endif
  runtime::check_launch(name);
}

/// A kernel of runtime::load_kernel() with these parameters.
template <class... Parameters>
struct loaded_kernel {
  void* code;
};

/// Queues it as launch() does. Its blocks have no shared memory.
template <class... Parameters, class... Arguments>
void launch_loaded(const cuda_stream& s, const char* name, dim3 grid, dim3 block,
                   loaded_kernel<Parameters...> kernel, const Arguments&... arguments) {
  runtime::make_current(s.device);
#ifdef __CUDACC__
  std::tuple<Parameters...> converted(arguments...);
  const auto launch = [&](auto&... each) {
    void* addresses[] = {&each...};
    // Its error is that of the launch, which is asked for below.
    static_cast<void>(cudaLaunchKernel(static_cast<const void*>(kernel.code), grid, block, addresses, 0,
                                       static_cast<cudaStream_t>(s.stream)));
  };
  std::apply(launch, converted);
#else
  simulated_gpu::launch(s.stream, name, grid, block, 0,
                        reinterpret_cast<void (*)(Parameters...)>(kernel.code), Parameters(arguments)...);
#endif
  runtime::check_launch(name);
}

/// The shared memory of this block, as much as its launch asked for, aligned to 16 bytes.
template <class T>
__device__ T* shared_memory() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char memory_of_block[];
  return reinterpret_cast<T*>(memory_of_block);
#else
  return static_cast<T*>(simulated_gpu::shared_memory());
#endif
}

/// The number of this thread among all of the grid, and how many there are.
__device__ inline std::size_t grid_thread() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::size_t grid_threads() { return std::size_t{gridDim.x} * blockDim.x; }

/// The time in ns by the GPU's clock.
__device__ inline std::uint64_t gpu_nanoseconds() {
#ifdef __CUDACC__
  std::uint64_t now = 0;
#ifdef __CUDA_ARCH__
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
#endif
  return now;
#else
  return simulated_gpu::nanoseconds();
#endif
}

/// Stores a number in pinned memory. A host that reads it also reads what this thread has stored before.
__device__ inline void store_for_host(std::uint64_t* to, std::uint64_t value) {
#ifdef __CUDACC__
  __threadfence_system();
  *static_cast<volatile std::uint64_t*>(to) = value;
#else
  std::atomic_ref(*to).store(value, std::memory_order_release);
#endif
}

/// Whether all addresses are multiples of 16, so that the arrays can be read as packs.
template <class... T>
bool are_packs(const T*... addresses) {
  return ((reinterpret_cast<std::uintptr_t>(addresses) % alignof(float_pack) == 0) && ...);
}

/// The sum over the 32 threads of a warp, in a fixed order; every thread has it.
template <class T>
__device__ T warp_sum(T x) {
  for (unsigned distance = warp_size / 2; distance > 0; distance /= 2)
    x += __shfl_xor_sync(0xffffffffU, x, distance);
  return x;
}

/// The sum over all threads of a block, in a fixed order; every thread has it. `workspace` is shared memory
/// for 32 elements. blockDim.x is a multiple of 32, and blockDim.y and z are 1.
template <class T>
__device__ T block_sum(T x, T* workspace) {
  const unsigned warp = threadIdx.x / warp_size, place = threadIdx.x % warp_size;
  x = warp_sum(x);
  __syncthreads(); // a sum before this one may still be read
  if (place == 0) workspace[warp] = x;
  __syncthreads();
  return warp_sum(place < blockDim.x / warp_size ? workspace[place] : T{0});
}

/// Bytes of shared memory for the `workspace` of block_sum().
template <class T>
inline constexpr std::size_t block_sum_bytes = warp_size * sizeof(T);

/// The sum of what all blocks wrote, by one block, divided by `divisor`. It needs block_sum_bytes<T>.
template <class T, class Result>
__global__ void total_kernel(const T* parts, unsigned count, T divisor, Result* total) {
  T sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) sum += parts[i];
  sum = block_sum(sum, shared_memory<T>());
  if (threadIdx.x == 0) *total = static_cast<Result>(sum / divisor);
}

/// Where a kernel notes what is wrong with its data.
struct fault_report {
  stream_status* status;
  fault_kind kind;
  std::uint32_t operation;
  std::uint64_t limit;

  /// Notes that element number `element` is `found`, unless an earlier operation noted something, or an
  /// earlier element of this one.
  __device__ void note(std::uint32_t element, std::int32_t found) const {
    const fault_word::word cause = fault_word::cause_of(kind, operation);
    const fault_word::word before = atomicCAS(&status->fault.cause, fault_word::word{0}, cause);
    if (before != 0 && before != cause) return;
    atomicMax(&status->fault.first, fault_word::first_of(element, found));
    atomicMax(&status->fault.bound, fault_word::bound_of(element, limit)); // of the same element
  }
};

inline fault_report fault_of(const cuda_stream& s, fault_kind kind, std::uint64_t limit) {
  return {s.status, kind, s.operation, limit};
}

/// The sum of term(i) for i = first, first + step and so on below `last`. Eight terms are loaded before the
/// first of them is added, so that the loads are under way together.
template <class Term>
__device__ float strided_sum(std::size_t first, std::size_t last, std::size_t step, Term term) {
  constexpr unsigned batch = 8;
  float total = 0;
  for (; first < last; first += batch * step) {
    float terms[batch];
#pragma unroll
    for (unsigned j = 0; j < batch; ++j) {
      const std::size_t i = first + j * step;
      terms[j] = i < last ? term(i) : 0.0F;
    }
#pragma unroll
    for (unsigned j = 0; j < batch; ++j) total += terms[j];
  }
  return total;
}

} // namespace mailgrad::cuda
