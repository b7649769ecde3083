#include <mailgrad/kernels/cuda/gemm.hpp>

#include <mailgrad/tensor/error.hpp>

#include <cublas_v2.h>

#include <string>

namespace mailgrad::cuda {

namespace {

cublasOperation_t operation_of(operand_order o) {
  return o == operand_order::as_is ? CUBLAS_OP_N : CUBLAS_OP_T;
}

} // namespace

/// cuBLAS stores matrices by columns, so it takes row-major A, B and C for their transposes: C^T = B^T A^T.
void gemm(const cuda_stream& s, const gemm_shape& g, const float* a, const float* b, float* c) {
  if (g.batch * g.m * g.n == 0) return;
  const auto extent = [](std::size_t n) { return static_cast<int>(n); };
  const auto stride = [](std::size_t n) { return static_cast<long long>(n); };
  const float one = 1, zero = 0;
  const auto status = cublasSgemmStridedBatched(
      static_cast<cublasHandle_t>(s.cublas), operation_of(g.b), operation_of(g.a), extent(g.n), extent(g.m),
      extent(g.k), &one, b, extent(g.b == operand_order::as_is ? g.n : g.k), stride(g.k * g.n), a,
      extent(g.a == operand_order::as_is ? g.k : g.m), stride(g.m * g.k), &zero, c, extent(g.n),
      stride(g.m * g.n), extent(g.batch));
  if (status != CUBLAS_STATUS_SUCCESS)
    throw device_error(world_errc::device_failure, std::string("gemm: ") + cublasGetStatusString(status));
}

} // namespace mailgrad::cuda
