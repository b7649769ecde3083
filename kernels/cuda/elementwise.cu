#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/elementwise.hpp>

namespace mailgrad::cuda {
namespace {

/// An input, and how far apart two elements are: 0 if it has one element for all.
struct chain_input {
  const float* values;
  std::size_t step;

  template <class Elements>
  __device__ float_pack load(const Elements& elements) const {
    if (step != 0) return elements.load(values);
    const float x = values[0];
    return {{x, x, x, x}};
  }
};

constexpr unsigned packs_of_step = 2;

/// A chain of one step. All threads take the same branches.
__global__ void step_kernel(elementwise_function f, bool unary, chain_input a, chain_input b, float* y,
                            element_range range) {
  for_packs<packs_of_step>(
      range,
      [&](auto elements) {
        operand_packs x{};
        x.a = a.load(elements);
        if (!unary) x.b = b.load(elements);
        return x;
      },
      [&](auto& loaded) { with_functor(f, apply_to_packs<packs_of_step>{loaded}); },
      [&](auto elements, const operand_packs& x) { elements.store(y, x.a); });
}

/// A step of a longer chain. Operands lie in slots of shared memory, inputs first.
struct chain_step {
  elementwise_function function;
  std::uint8_t a, b;
  bool a_is_latest,
      b_is_latest; ///< the operand is the result of the step before, which a register still holds
  bool kept;       ///< a step after the next reads the result
  std::int8_t output;
};

struct chain_arguments {
  chain_input inputs[elementwise_chain::max_inputs];
  chain_step steps[elementwise_chain::max_steps];
  float* outputs[elementwise_chain::max_steps];
  unsigned input_count, step_count;
};

/// A thread of a longer chain has one pack, and a slot for each operand, which no other thread touches.
constexpr unsigned threads_of_chain = 128;

/// Memory that is indexed at run time is local memory, unless it is shared memory.
__global__ void chain_kernel(chain_arguments chain, element_range range) {
  const std::size_t first = grid_thread() * float_pack::size;
  if (first >= range.n) return;
  auto* const slots = shared_memory<float_pack>() + threadIdx.x;
  float_pack inputs[elementwise_chain::max_inputs] = {};
  range.visit(first, [&](auto elements) {
#pragma unroll
    for (unsigned i = 0; i < elementwise_chain::max_inputs; ++i)
      if (i < chain.input_count) inputs[i] = chain.inputs[i].load(elements);
  });
#pragma unroll
  for (unsigned i = 0; i < elementwise_chain::max_inputs; ++i)
    if (i < chain.input_count) slots[i * threads_of_chain] = inputs[i];
  operand_packs x[1] = {};
  for (unsigned i = 0; i < chain.step_count; ++i) {
    const chain_step step = chain.steps[i];
    const float_pack latest = x[0].a;
    if (!step.a_is_latest) x[0].a = slots[step.a * threads_of_chain];
    x[0].b = step.b_is_latest ? latest : slots[step.b * threads_of_chain];
    with_functor(step.function, apply_to_packs<1>{x});
    if (step.kept) slots[(chain.input_count + i) * threads_of_chain] = x[0].a;
    if (step.output >= 0)
      range.visit(first, [&](auto elements) { elements.store(chain.outputs[step.output], x[0].a); });
  }
}

chain_input input_of(const elementwise_chain& chain, std::span<const void* const> inputs, std::size_t i) {
  return {static_cast<const float*>(inputs[i]), chain.inputs[i] == elementwise_chain::extent::full ? 1U : 0U};
}

element_range range_of(const elementwise_chain& chain, std::span<const void* const> inputs,
                       std::span<void* const> outputs, std::size_t n) {
  bool aligned = true;
  for (std::size_t i = 0; i < chain.input_count; ++i)
    aligned = aligned && (chain.inputs[i] == elementwise_chain::extent::one || are_packs(inputs[i]));
  for (const void* y : outputs) aligned = aligned && are_packs(y);
  return {n, aligned};
}

bool is_read_from(const elementwise_chain& chain, std::size_t operand, std::size_t first_step) {
  for (std::size_t i = first_step; i < chain.step_count; ++i)
    if (chain.steps[i].a == operand || chain.steps[i].b == operand) return true;
  return false;
}

chain_arguments arguments_of(const elementwise_chain& chain, std::span<const void* const> inputs,
                             std::span<void* const> outputs) {
  chain_arguments made{};
  made.input_count = chain.input_count;
  made.step_count = chain.step_count;
  for (std::size_t i = 0; i < chain.input_count; ++i) made.inputs[i] = input_of(chain, inputs, i);
  for (std::size_t i = 0; i < chain.step_count; ++i) {
    const elementwise_chain::step& step = chain.steps[i];
    const std::size_t result = chain.input_count + i;
    made.steps[i] = {.function = step.function,
                     .a = step.a,
                     .b = step.b,
                     .a_is_latest = i > 0 && step.a == result - 1,
                     .b_is_latest = i > 0 && step.b == result - 1,
                     .kept = is_read_from(chain, result, i + 2),
                     .output = step.output};
  }
  for (std::size_t i = 0; i < std::min(outputs.size(), std::size(made.outputs)); ++i)
    made.outputs[i] = static_cast<float*>(outputs[i]);
  return made;
}

static_assert(std::extent_v<decltype(chain_arrays::inputs)> == elementwise_chain::max_inputs &&
              std::extent_v<decltype(chain_arrays::outputs)> == elementwise_chain::max_steps);

/// Queues the kernel that was generated for the chain. Returns whether there is one.
bool queue_generated(const cuda_stream& s, const elementwise_chain& chain,
                     std::span<const void* const> inputs, std::span<void* const> outputs,
                     const element_range& range) {
  if (interprets_chains()) return false;
  void* const code = chain_kernels::of_process().find(chain, s.device);
  if (code == nullptr) return false;
  chain_arrays arrays{};
  for (std::size_t i = 0; i < chain.input_count; ++i) arrays.inputs[i] = static_cast<const float*>(inputs[i]);
  for (std::size_t i = 0; i < std::min(outputs.size(), std::size(arrays.outputs)); ++i)
    arrays.outputs[i] = static_cast<float*>(outputs[i]);
  launch_loaded(s, "elementwise", blocks_of_packs(range.n, packs_of(chain)), threads_per_block,
                loaded_kernel<chain_arrays, element_range>{code}, arrays, range);
  return true;
}

void elementwise(const cuda_stream& s, const elementwise_chain& chain, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t n, void*) {
  if (n == 0 || chain.step_count == 0) return;
  const element_range range = range_of(chain, inputs, outputs, n);
  const elementwise_chain::step& only = chain.steps[0];
  if (chain.step_count == 1 && only.output >= 0)
    return launch(s, "elementwise", blocks_of_packs(n, packs_of_step), threads_per_block, 0, step_kernel,
                  only.function, is_unary(only.function), input_of(chain, inputs, only.a),
                  input_of(chain, inputs, only.b),
                  static_cast<float*>(outputs[static_cast<std::size_t>(only.output)]), range);
  if (queue_generated(s, chain, inputs, outputs, range)) return;
  const std::size_t slots = std::size_t{chain.input_count} + chain.step_count;
  launch(s, "elementwise", blocks_of_packs(n, 1, threads_of_chain), threads_of_chain,
         slots * threads_of_chain * sizeof(float_pack), chain_kernel, arguments_of(chain, inputs, outputs),
         range);
}

} // namespace

MAILGRAD_GPU_BODY(elementwise)

} // namespace mailgrad::cuda
