#pragma once

#include <mailgrad/kernels/cuda/packs.hpp>

#include <cuda_runtime.h> // the language of kernels; for tests, that of the simulated GPU

#include <source_location>

/// Copies from the memory of a GPU to shared memory that go on while their thread works.
///
/// Source  NVIDIA, "PTX ISA", cp.async, which GPUs since compute capability 8.0 have.

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
  simulated_gpu::copy_later(to, from, bytes, there, where);
#endif
}

/// Waits until all copies that this thread has begun are done. A barrier behind it shows them to the block.
__device__ inline void wait_for_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_all;" ::: "memory");
#else
  simulated_gpu::wait_for_copies();
#endif
}

// Products of small matrices by a whole warp, on the GPU's units for that. A lane has its share of each
// matrix in registers, two numbers of bfloat16 in each.
//
// Source  NVIDIA, "PTX ISA", sections on mma.m16n8k16 and ldmatrix, which draw who has what.

/// Two numbers as they lie in memory, rounded by one instruction. It makes one NaN of all.
__device__ inline unsigned nearest_pair(float first, float second) {
#ifdef __CUDACC__
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return rounded_pair(first, second);
#endif
}

/// Loads four matrices of 8 x 8 numbers from shared memory. Lane l gives the address of row l % 8 of matrix l
/// / 8, a multiple of 16 bytes. Of each matrix it gets numbers 2 (l % 4) and the next of row l / 4.
__device__ inline void
load_matrices(unsigned (&to)[4], const bfloat16* row,
              [[maybe_unused]] std::source_location where = std::source_location::current()) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
#else
  simulated_gpu::load_matrices(to, row, false, where);
#endif
}

/// The same for the transposes: numbers 2 (l % 4) and the next of column l / 4.
__device__ inline void
load_transposed_matrices(unsigned (&to)[4], const bfloat16* row,
                         [[maybe_unused]] std::source_location where = std::source_location::current()) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
#else
  simulated_gpu::load_matrices(to, row, true, where);
#endif
}

/// Adds the product of 16 x 16 by 16 x 8 numbers to 16 x 8 floats. Lane l has of these rows r = l / 4
/// (`upper`) and r + 8 (`lower`), each in columns c = 2 (l % 4) and c + 1. `a` are its pairs of rows r and r
/// + 8 from c on, then of both from c + 8 on; `b0` and `b1` are those of column r from rows c and c + 8 on.
__device__ inline void
multiply_matrices(float* upper, float* lower, const unsigned (&a)[4], unsigned b0, unsigned b1,
                  [[maybe_unused]] std::source_location where = std::source_location::current()) {
#ifdef __CUDACC__
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
               "{%8, %9}, {%0, %1, %2, %3};"
               : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  const simulated_gpu::matrix_product product(a, b0, b1, where);
  for (unsigned column = 0; column < 2; ++column) {
    upper[column] = product.sum(upper[column], 0, column);
    lower[column] = product.sum(lower[column], 1, column);
  }
#endif
}

} // namespace mailgrad::cuda
