#pragma once

#include <mailgrad/kernels/gemm.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mailgrad::cuda {

/// The matrix products of one stream. On a card it holds cuBLASLt's handle and workspace, and the algorithm
/// that was chosen for each shape.
///
/// `bias` is added to each row of C, unless it is null. There is no relu: that of cuBLAS makes 0 of a NaN,
/// and a model that has diverged would go on as if nothing were wrong.
/// Shapes  every extent is at least 1, since gemm() answers the others itself; bias: float32[n].
/// Errors  device_error, with what cuBLAS reports; shape_error for an extent that cuBLAS cannot count.
/// Threads one caller at a time. The same operands, equally aligned, give the same bits.
class products {
public:
  virtual ~products() = default;
  virtual void run(const cuda_stream& s, const gemm_shape& g, const float* a, const float* b, float* c,
                   const float* bias = nullptr) = 0;
};

/// Opens cuBLAS when the first card asks for it, since loading it takes 0.2 s and 600 MB of addresses.
///
/// Errors  device_error if the machine has no cuBLAS; the text says where it was looked for.
std::unique_ptr<products> make_products(std::uint32_t card);

} // namespace mailgrad::cuda
