#include <mailgrad/kernels/gemm.hpp>

#include <mailgrad/kernels/cuda/gemm.hpp>
#include <mailgrad/kernels/host/product/gemm.hpp>

namespace mailgrad {

void gemm(const stream& s, const gemm_shape& g, const float* a, const float* b, float* c, void* scratch,
          next_use c_use) {
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) return cuda::gemm(*gpu, g, a, b, c);
  host::gemm(g, a, b, c, scratch, c_use);
}

} // namespace mailgrad
