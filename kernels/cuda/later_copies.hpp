#pragma once

#include <cuda_runtime.h> // the language of kernels; for tests, that of the simulated card

#include <source_location>

/// Copies from the memory of a card to shared memory that go on while their thread works.
///
/// Source  NVIDIA, "PTX ISA", cp.async, which cards since compute capability 8.0 have.
namespace mailgrad::cuda {

/// Begins to copy `bytes`, 4 or 16, to an address in shared memory; both are multiples of `bytes`. With
/// `there` false nothing is read, and zeros are stored.
template <unsigned bytes>
__device__ void copy_later(void* to, const void* from, bool there,
                           [[maybe_unused]] std::source_location where = std::source_location::current()) {
  static_assert(bytes == 4 || bytes == 16);
#ifdef __CUDACC__
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const unsigned read = there ? bytes : 0;
  if constexpr (bytes == 16) // past the first cache, which holds nothing that is read once
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(read)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(read)
                 : "memory");
#else
  simulated_card::copy_later(to, from, bytes, there, where);
#endif
}

/// Waits until all copies that this thread has begun are done. A barrier behind it shows them to the block.
__device__ inline void wait_for_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_all;" ::: "memory");
#else
  simulated_card::wait_for_copies();
#endif
}

} // namespace mailgrad::cuda
