#include <mailgrad/kernels/cuda/elementwise.hpp>
#include <mailgrad/kernels/cuda/launch.hpp>

#include <algorithm>

namespace mailgrad::cuda {

namespace {

/// Applies a functor to two operands.
struct evaluate {
  float a, b;
  template <class Functor>
  MAILGRAD_HOST_DEVICE float operator()(Functor f) const {
    return apply(f, a, b);
  }
};

/// A chain and its operands, as arguments of chain_kernel.
struct chain_arguments {
  elementwise_chain::step steps[elementwise_chain::max_steps];
  const float* inputs[elementwise_chain::max_inputs];
  std::size_t input_steps[elementwise_chain::max_inputs]; ///< 0 for an input of one element
  float* outputs[elementwise_chain::max_steps];
  unsigned input_count, step_count;
};

chain_arguments arguments_of(const elementwise_chain& chain, std::span<const void* const> inputs,
                             std::span<void* const> outputs) {
  chain_arguments made{};
  made.input_count = chain.input_count;
  made.step_count = chain.step_count;
  std::copy_n(chain.steps.begin(), chain.step_count, made.steps);
  for (std::size_t i = 0; i < chain.input_count; ++i) {
    made.inputs[i] = static_cast<const float*>(inputs[i]);
    made.input_steps[i] = chain.inputs[i] == elementwise_chain::extent::full ? 1 : 0;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) made.outputs[i] = static_cast<float*>(outputs[i]);
  return made;
}

/// Each thread computes the whole chain for its elements. All threads take the same branches.
__global__ void chain_kernel(chain_arguments chain, std::size_t n) {
  const std::size_t stride = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t k = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; k < n; k += stride) {
    float operands[elementwise_chain::max_inputs + elementwise_chain::max_steps];
    for (unsigned i = 0; i < chain.input_count; ++i) operands[i] = chain.inputs[i][k * chain.input_steps[i]];
    for (unsigned i = 0; i < chain.step_count; ++i) {
      const elementwise_chain::step& step = chain.steps[i];
      const float y = with_functor(step.function, evaluate{operands[step.a], operands[step.b]});
      operands[chain.input_count + i] = y;
      if (step.output >= 0) chain.outputs[step.output][k] = y;
    }
  }
}

struct broadcast_arguments {
  std::size_t extents[shape::max_rank], a[shape::max_rank], b[shape::max_rank];
  std::size_t rank;
};

__global__ void broadcast_kernel(elementwise_function f, broadcast_arguments plan, const float* a,
                                 const float* b, float* y, std::size_t n) {
  const std::size_t stride = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t k = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; k < n; k += stride) {
    std::size_t rest = k, at_a = 0, at_b = 0;
    for (std::size_t axis = plan.rank; axis-- > 0; rest /= plan.extents[axis]) {
      const std::size_t index = rest % plan.extents[axis];
      at_a += index * plan.a[axis];
      at_b += index * plan.b[axis];
    }
    y[k] = with_functor(f, evaluate{a[at_a], b[at_b]});
  }
}

} // namespace

void elementwise(const cuda_stream& s, const elementwise_chain& chain, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t n) {
  if (n == 0) return;
  launch(s, "elementwise", blocks_for(n), threads_per_block, 0, chain_kernel,
         arguments_of(chain, inputs, outputs), n);
}

void broadcast(const cuda_stream& s, elementwise_function f, const broadcast_plan& plan, const float* a,
               const float* b, float* y) {
  broadcast_arguments made{};
  made.rank = plan.rank;
  std::size_t n = 1;
  for (std::size_t axis = 0; axis < plan.rank; ++axis) n *= plan.extents[axis];
  std::copy_n(plan.extents.begin(), plan.rank, made.extents);
  std::copy_n(plan.a.begin(), plan.rank, made.a);
  std::copy_n(plan.b.begin(), plan.rank, made.b);
  if (n == 0) return;
  launch(s, "elementwise", blocks_for(n), threads_per_block, 0, broadcast_kernel, f, made, a, b, y, n);
}

} // namespace mailgrad::cuda
