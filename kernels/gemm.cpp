#include <mailgrad/kernels/gemm.hpp>

#include <mailgrad/kernels/cuda/gemm.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/host/elementwise.hpp>
#include <mailgrad/kernels/host/product/gemm.hpp>

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

} // namespace mailgrad
