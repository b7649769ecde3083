#include <mailgrad/kernels/elementwise.hpp>

#include <mailgrad/kernels/cuda/elementwise.hpp>
#include <mailgrad/kernels/host/elementwise_loop.hpp>
#include <mailgrad/kernels/host/odometer.hpp>
#include <mailgrad/kernels/no_cuda.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <string>

namespace mailgrad {

namespace {

/// Elements walked through a whole chain before the next: what lies between its steps stays in the L1 cache.
constexpr std::size_t tile = 1024;

constexpr std::size_t max_operands = elementwise_chain::max_inputs + elementwise_chain::max_steps;

/// Where each operand lies and whether it is walked.
struct operands {
  std::array<float*, max_operands> address;
  std::array<stepping, max_operands> step;
};

[[noreturn, gnu::cold, gnu::noinline]] void refuse(const elementwise_chain& chain, std::size_t inputs,
                                                   std::size_t outputs) {
  throw shape_error("elementwise: a chain of " + std::to_string(chain.input_count) + " inputs and " +
                    std::to_string(chain.step_count) + " steps refers to others than its " +
                    std::to_string(inputs) + " inputs, " + std::to_string(outputs) +
                    " outputs and earlier steps");
}

/// Inputs and outputs where the caller has them, other results one after the other in scratch memory.
operands place(const elementwise_chain& chain, std::span<const void* const> inputs,
               std::span<void* const> outputs, void* scratch) {
  if (chain.input_count > elementwise_chain::max_inputs || chain.step_count > elementwise_chain::max_steps ||
      inputs.size() < chain.input_count)
    refuse(chain, inputs.size(), outputs.size());
  operands placed;
  for (std::size_t i = 0; i < chain.input_count; ++i) {
    placed.address[i] = static_cast<float*>(const_cast<void*>(inputs[i])); // inputs are only read
    placed.step[i] = chain.inputs[i] == elementwise_chain::extent::full ? stepping::along : stepping::still;
  }
  auto* between = static_cast<float*>(scratch);
  for (std::size_t i = 0; i < chain.step_count; ++i) {
    const elementwise_chain::step& step = chain.steps[i];
    const std::int8_t output = step.output;
    if (std::max(step.a, step.b) >= chain.input_count + i ||
        (output >= 0 && static_cast<std::size_t>(output) >= outputs.size()))
      refuse(chain, inputs.size(), outputs.size());
    placed.address[chain.input_count + i] =
        output < 0 ? between : static_cast<float*>(outputs[static_cast<std::size_t>(output)]);
    placed.step[chain.input_count + i] = stepping::along;
    if (output < 0) between += tile;
  }
  return placed;
}

void run_on_host(const elementwise_chain& chain, const operands& placed, std::size_t n) {
  std::array<elementwise_loop, elementwise_chain::max_steps> loops;
  for (std::size_t i = 0; i < chain.step_count; ++i)
    loops[i] =
        find_loop(chain.steps[i].function, placed.step[chain.steps[i].a], placed.step[chain.steps[i].b]);

  const std::size_t stride = chain.step_count == 1 ? std::max<std::size_t>(n, 1) : tile;
  for (std::size_t first = 0; first < n; first += stride) {
    const std::size_t count = std::min(stride, n - first);
    const auto at = [&](std::size_t operand) {
      const bool between =
          operand >= chain.input_count && chain.steps[operand - chain.input_count].output < 0;
      const std::size_t offset = between ? 0 : first * static_cast<std::size_t>(placed.step[operand]);
      return placed.address[operand] + offset;
    };
    for (std::size_t i = 0; i < chain.step_count; ++i)
      loops[i](at(chain.steps[i].a), at(chain.steps[i].b), at(chain.input_count + i), count);
  }
}

void require_repeatable(const shape& operand, const shape& result) {
  bool fits = operand.rank() <= result.rank();
  for (std::size_t i = 1; fits && i <= operand.rank(); ++i) {
    const std::size_t extent = operand[operand.rank() - i];
    fits = extent == 1 || extent == result[result.rank() - i];
  }
  if (!fits) throw shape_error("broadcast", operand, result);
}

} // namespace

std::size_t elementwise_chain::scratch_bytes() const noexcept {
  const auto between =
      std::ranges::count_if(std::span(steps).first(step_count), [](const step& s) { return s.output < 0; });
  return static_cast<std::size_t>(between) * tile * sizeof(float);
}

void elementwise(const stream& s, const elementwise_chain& chain, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t n, void* scratch) {
  if (const auto* gpu = std::get_if<cuda_stream>(&s))
    return cuda::elementwise(*gpu, chain, inputs, outputs, n);
  run_on_host(chain, place(chain, inputs, outputs, scratch), n);
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
  const auto extents = std::span(plan.extents).first(plan.rank);
  if (std::ranges::find(extents, std::size_t{0}) != extents.end()) return;
  const std::size_t inner = plan.rank - 1;
  const auto loop = find_loop(f, static_cast<stepping>(plan.a[inner]), static_cast<stepping>(plan.b[inner]));
  odometer<2> at(extents, {plan.a.data(), plan.b.data()});
  do {
    loop(a + at.offset(0), b + at.offset(1), y, extents[inner]);
    y += extents[inner];
  } while (at.advance());
}

void bias_relu_gradient(const stream& s, const float* y, const float* dy, float* dz, float* db,
                        std::size_t rows, std::size_t columns) {
  require_host(s, "bias_relu_gradient");
  std::fill_n(db, columns, 0.0F);
  const functors::relu_gradient gradient;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t first = row * columns;
#pragma omp simd
    for (std::size_t i = 0; i < columns; ++i) {
      const float d = gradient(y[first + i], dy[first + i]);
      dz[first + i] = d;
      db[i] += d;
    }
  }
}

} // namespace mailgrad
