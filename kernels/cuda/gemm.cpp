#include <mailgrad/kernels/cuda/gemm.hpp>

#include <mailgrad/kernels/cuda/elementwise.hpp>
#include <mailgrad/kernels/cuda/products.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>

namespace mailgrad::cuda {

namespace {

/// C when there is nothing to add up: zeros, and what the epilogue makes of them.
void write_empty_sums(const cuda_stream& s, const gemm_shape& g, float* c, const gemm_epilogue& epilogue) {
  const std::size_t rows = g.batch * g.m;
  runtime::fill(s.stream, c, 0, rows * g.n * sizeof(float));
  if (epilogue.bias == nullptr) return; // relu leaves zeros as they are
  broadcast(s, epilogue.relu ? elementwise_function::relu_of_sum : elementwise_function::add,
            plan_broadcast({rows, g.n}, {g.n}, {rows, g.n}), c, epilogue.bias, c);
}

} // namespace

void gemm(const cuda_stream& s, const gemm_shape& g, const float* a, const float* b, float* c,
          const gemm_epilogue& epilogue) {
  if (g.batch * g.m * g.n == 0) return;
  if (g.k == 0) return write_empty_sums(s, g, c, epilogue);
  s.products->run(s, g, a, b, c, epilogue);
}

} // namespace mailgrad::cuda
