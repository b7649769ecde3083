#pragma once

#include <mailgrad/kernels/gemm.hpp>

namespace mailgrad::cuda {

/// The CUDA half of kernels/gemm.hpp.
void gemm(const cuda_stream& s, const gemm_shape& g, const float* a, const float* b, float* c,
          const gemm_epilogue& epilogue);
void gemm(const cuda_stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, float* c,
          const gemm_epilogue& epilogue);
void gemm(const cuda_stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, bfloat16* c,
          const bfloat16* bias);

} // namespace mailgrad::cuda
