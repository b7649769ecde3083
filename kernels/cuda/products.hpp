#pragma once

#include <mailgrad/kernels/gemm.hpp>

#include <memory>

namespace mailgrad::cuda {

/// The matrix products of one stream. On a GPU it holds cuBLASLt's handle and workspace, and the algorithm
/// that was chosen for each shape.
///
/// In TF32 it rounds float32 operands of its own accord. Those of bfloat16 are rounded already, and the
/// result may be rounded as well. Sums are float32.
///
/// `bias` is added to each row of C, unless it is null. There is no relu: that of cuBLAS makes 0 of a NaN,
/// and a model that has diverged would go on as if nothing were wrong.
/// Shapes  every extent is at least 1, since gemm() answers the others itself; bias: float32[n].
/// Errors  device_error, with what cuBLAS reports; out_of_memory, which names the GPU or the host;
///         shape_error for an extent that cuBLAS cannot count.
/// Threads one caller at a time. The same operands, equally aligned, give the same bits.
class products {
public:
  explicit products(product_precision p) : precision_(p) {}
  virtual ~products() = default;

  /// How the products of this stream are to be computed. In bfloat16 it is the caller who rounds.
  product_precision precision() const noexcept { return precision_; }

  /// Takes the memory that products work in, once. Whoever will multiply calls it when it takes its own
  /// memory; the first product does so else.
  virtual void take_workspace() = 0;

  virtual void run(const cuda_stream& s, const gemm_shape& g, const float* a, const float* b, float* c,
                   const float* bias = nullptr) = 0;
  virtual void run(const cuda_stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, float* c,
                   const float* bias = nullptr) = 0;
  virtual void run(const cuda_stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b,
                   bfloat16* c, const bfloat16* bias = nullptr) = 0;

private:
  product_precision precision_;
};

/// What multiplies on GPUs, with its version: "cuBLAS 13.1.0". The products of two versions may differ in
/// their last bits.
///
/// Errors  device_error as make_products().
std::string format_products();

/// Opens cuBLAS when the first GPU asks for it, since loading it takes 0.2 s and 600 MB of addresses.
///
/// Errors  device_error if the machine has no cuBLAS; the text says where it was looked for.
std::unique_ptr<products> make_products(std::uint32_t gpu, product_precision p = product_precision::float32);

} // namespace mailgrad::cuda
