#include <mailgrad/kernels/cuda/gemm.hpp>

#include <mailgrad/kernels/cuda/products.hpp>

namespace mailgrad::cuda {

void gemm(const cuda_stream& s, const gemm_shape& g, const float* a, const float* b, float* c,
          const gemm_epilogue& epilogue) {
  s.products->run(s, g, a, b, c, epilogue);
}

} // namespace mailgrad::cuda
