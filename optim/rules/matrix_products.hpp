#pragma once

#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/stream.hpp>

namespace mailgrad {

/// Makes room for so many floats; what was there is lost where it grows.
inline void grow(block& memory, std::size_t floats) {
  if (memory.bytes() < floats * sizeof(float)) memory = block(floats * sizeof(float));
}

/// Products of matrices on the caller's thread. The memory that they need is taken before the first one.
///
/// Threads one caller at a time.
class matrix_products {
public:
  /// Takes the memory for products of this shape.
  void expect(const gemm_shape& g) {
    if (const std::size_t bytes = gemm_scratch_bytes(g); bytes > scratch_.bytes()) scratch_ = block(bytes);
  }
  /// c = a b, of a shape that was expected.
  void multiply(const gemm_shape& g, const float* a, const float* b, float* c) {
    gemm(host_stream{}, g, a, b, c, scratch_.data());
  }
  /// c = a b of square matrices of n rows.
  void multiply_square(std::size_t n, const float* a, const float* b, float* c) {
    multiply({n, n, n}, a, b, c);
  }

private:
  block scratch_;
};

} // namespace mailgrad
