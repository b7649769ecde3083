#include <mailgrad/kernels/elementwise.hpp>

#include <mailgrad/kernels/cuda/elementwise.hpp>
#include <mailgrad/kernels/host/elementwise.hpp>
#include <mailgrad/tensor/error.hpp>

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

} // namespace

void elementwise(const stream& s, const elementwise_chain& chain, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t n, void* scratch) {
  if (const auto* gpu = std::get_if<cuda_stream>(&s))
    return cuda::elementwise(*gpu, chain, inputs, outputs, n);
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
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) return cuda::broadcast(*gpu, f, plan, a, b, y);
  host::broadcast(f, plan, a, b, y);
}

} // namespace mailgrad
