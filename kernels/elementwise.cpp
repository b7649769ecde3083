#include <mailgrad/kernels/elementwise.hpp>

#include <mailgrad/kernels/cuda/elementwise.hpp>
#include <mailgrad/kernels/host/elementwise.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad {

namespace {

void require_repeatable(const shape& operand, const shape& result) {
  bool fits = operand.rank() <= result.rank();
  for (std::size_t i = 1; fits && i <= operand.rank(); ++i) {
    const std::size_t extent = operand[operand.rank() - i];
    fits = extent == 1 || extent == result[result.rank() - i];
  }
  if (!fits) throw shape_error("broadcast", operand, result);
}

[[noreturn, gnu::cold, gnu::noinline]] void refuse(const elementwise_chain& chain, std::size_t inputs,
                                                   std::size_t outputs) {
  throw shape_error(fmt::format("elementwise: a chain of {} inputs and {} steps refers to others than its {} "
                                "inputs, {} outputs and earlier steps",
                                chain.input_count, chain.step_count, inputs, outputs));
}

void require_sound(const elementwise_chain& chain, std::size_t inputs, std::size_t outputs) {
  if (chain.input_count > elementwise_chain::max_inputs || chain.step_count > elementwise_chain::max_steps ||
      inputs < chain.input_count)
    refuse(chain, inputs, outputs);
  for (std::size_t i = 0; i < chain.step_count; ++i) {
    const elementwise_chain::step& step = chain.steps[i];
    const bool lacks_operand = std::max(step.a, step.b) >= chain.input_count + i;
    if (lacks_operand || (step.output >= 0 && static_cast<std::size_t>(step.output) >= outputs))
      refuse(chain, inputs, outputs);
  }
}

} // namespace

void elementwise(const stream& s, const elementwise_chain& chain, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t n, void* scratch) {
  require_sound(chain, inputs.size(), outputs.size());
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::elementwise(*card, chain, inputs, outputs, n);
  host::elementwise(chain, inputs, outputs, n, scratch);
}

broadcast_plan plan_broadcast(const shape& a, const shape& b, const shape& result) {
  for (const shape* operand : {&a, &b}) require_repeatable(*operand, result);
  broadcast_plan p;
  const auto stride_of = [&](const shape& operand, std::size_t axis) -> std::size_t {
    const std::size_t missing = result.rank() - operand.rank();
    if (axis < missing || operand[axis - missing] == 1) return 0;
    std::size_t stride = 1;
    for (std::size_t inner = axis - missing + 1; inner < operand.rank(); ++inner) stride *= operand[inner];
    return stride;
  };
  for (std::size_t axis = 0; axis < result.rank(); ++axis) {
    const std::size_t extent = result[axis], step_a = stride_of(a, axis), step_b = stride_of(b, axis);
    if (extent == 1) continue;
    const bool joins = p.rank > 0 && p.a[p.rank - 1] == step_a * extent && p.b[p.rank - 1] == step_b * extent;
    if (!joins) ++p.rank;
    p.extents[p.rank - 1] = extent * (joins ? p.extents[p.rank - 1] : 1);
    p.a[p.rank - 1] = step_a;
    p.b[p.rank - 1] = step_b;
  }
  if (p.rank == 0) p.extents[p.rank++] = 1;
  return p;
}

void broadcast(const stream& s, elementwise_function f, const broadcast_plan& plan, const float* a,
               const float* b, float* y) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::broadcast(*card, f, plan, a, b, y);
  host::broadcast(f, plan, a, b, y);
}

void bias_relu_gradient(const stream& s, const float* y, const float* dy, float* dz, float* db,
                        std::size_t rows, std::size_t columns) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::bias_relu_gradient(*card, y, dy, dz, db, rows, columns);
  host::bias_relu_gradient(y, dy, dz, db, rows, columns);
}

} // namespace mailgrad
