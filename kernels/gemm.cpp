#include <mailgrad/kernels/gemm.hpp>

#include <mailgrad/kernels/cuda/gemm.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/host/elementwise.hpp>
#include <mailgrad/kernels/host/product/gemm.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/require_host.hpp>

namespace mailgrad {

void gemm(const stream& s, const gemm_shape& g, const float* a, const float* b, float* c, void* scratch,
          next_use c_use, const gemm_epilogue& epilogue) {
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) return cuda::gemm(*gpu, g, a, b, c, epilogue);
  host::gemm(g, a, b, c, scratch, epilogue.none() ? c_use : next_use::soon);
  if (epilogue.none()) return;
  const shape result{g.batch * g.m, g.n};
  if (epilogue.bias == nullptr) {
    const auto plan = plan_broadcast(result, result, result);
    return host::broadcast(elementwise_function::relu, plan, c, c, c);
  }
  host::broadcast(epilogue.relu ? elementwise_function::relu_of_sum : elementwise_function::add,
                  plan_broadcast(result, {g.n}, result), c, epilogue.bias, c);
}

void gemm(const stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, float* c,
          const gemm_epilogue& epilogue) {
  cuda::gemm(require_card(s, "gemm"), g, a, b, c, epilogue);
}

void gemm(const stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, bfloat16* c,
          const bfloat16* bias) {
  const cuda_stream& card = require_card(s, "gemm");
  if (g.k == 0) throw shape_error("gemm: a product of no inner elements is not computed in bfloat16");
  cuda::gemm(card, g, a, b, c, bias);
}

} // namespace mailgrad
