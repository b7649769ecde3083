#include <mailgrad/kernels/gemm.hpp>

#include <mailgrad/kernels/cuda/products.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/kernels/elementwise.hpp>

namespace mailgrad::cuda {

namespace {

/// Adds the bias to each row of C and applies relu, as `epilogue` has them.
void finish_rows(const cuda_stream& s, const gemm_shape& g, float* c, const gemm_epilogue& epilogue) {
  using enum elementwise_function;
  const shape rows{g.batch * g.m, g.n};
  if (epilogue.bias == nullptr) return broadcast(s, relu, plan_broadcast(rows, rows, rows), c, c, c);
  broadcast(s, epilogue.relu ? relu_of_sum : add, plan_broadcast(rows, {g.n}, rows), c, epilogue.bias, c);
}

template <class Operand>
void multiply(const cuda_stream& s, const gemm_shape& g, const Operand* a, const Operand* b, float* c,
              const gemm_epilogue& epilogue) {
  const std::size_t size = g.batch * g.m * g.n;
  if (size == 0) return;
  if (g.k == 0)
    runtime::fill(s.stream, c, 0, size * sizeof(float));
  else if (!epilogue.relu)
    return s.products->run(s, g, a, b, c, epilogue.bias);
  else
    s.products->run(s, g, a, b, c);
  if (!epilogue.none()) finish_rows(s, g, c, epilogue);
}

} // namespace

void gemm(const cuda_stream& s, const gemm_shape& g, const float* a, const float* b, float* c,
          const gemm_epilogue& epilogue) {
  multiply(s, g, a, b, c, epilogue);
}

void gemm(const cuda_stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, float* c,
          const gemm_epilogue& epilogue) {
  multiply(s, g, a, b, c, epilogue);
}

void gemm(const cuda_stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, bfloat16* c,
          const bfloat16* bias) {
  s.products->run(s, g, a, b, c, bias); // which answers a result of nothing
}

} // namespace mailgrad::cuda
