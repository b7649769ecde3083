#include <mailgrad/kernels/host/elementwise.hpp>

#include <mailgrad/kernels/host/elementwise_loop.hpp>
#include <mailgrad/kernels/host/odometer.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

/// The number of elements that pass through the whole chain together. Results between its steps stay in the
/// L1 cache.
constexpr std::size_t chain_tile = 1024;

constexpr std::size_t max_operands = elementwise_chain::max_inputs + elementwise_chain::max_steps;

/// Where each operand lies, and whether it moves along with the elements.
struct operands {
  std::array<float*, max_operands> address;
  std::array<stepping, max_operands> step;
};

/// Places inputs and outputs in the caller's memory, and results between the steps in scratch memory.
operands place(const elementwise_chain& chain, std::span<const void* const> inputs,
               std::span<void* const> outputs, void* scratch) {
  operands placed;
  for (std::size_t i = 0; i < chain.input_count; ++i) {
    placed.address[i] = static_cast<float*>(const_cast<void*>(inputs[i])); // inputs are only read
    placed.step[i] = chain.inputs[i] == elementwise_chain::extent::full ? stepping::along : stepping::still;
  }
  auto* between = static_cast<float*>(scratch);
  for (std::size_t i = 0; i < chain.step_count; ++i) {
    const std::int8_t output = chain.steps[i].output;
    placed.address[chain.input_count + i] =
        output < 0 ? between : static_cast<float*>(outputs[static_cast<std::size_t>(output)]);
    placed.step[chain.input_count + i] = stepping::along;
    if (output < 0) between += chain_tile;
  }
  return placed;
}

void run_on_host(const elementwise_chain& chain, const operands& placed, std::size_t n) {
  std::array<elementwise_loop, elementwise_chain::max_steps> loops;
  for (std::size_t i = 0; i < chain.step_count; ++i)
    loops[i] =
        find_loop(chain.steps[i].function, placed.step[chain.steps[i].a], placed.step[chain.steps[i].b]);

  const std::size_t stride = chain.step_count == 1 ? std::max<std::size_t>(n, 1) : chain_tile;
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

} // namespace

std::size_t elementwise_chain::scratch_bytes() const noexcept {
  const auto between =
      std::ranges::count_if(std::span(steps).first(step_count), [](const step& s) { return s.output < 0; });
  return static_cast<std::size_t>(between) * chain_tile * sizeof(float);
}

namespace host {

void elementwise(const elementwise_chain& chain, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t n, void* scratch) {
  run_on_host(chain, place(chain, inputs, outputs, scratch), n);
}

void broadcast(elementwise_function f, const broadcast_plan& plan, const float* a, const float* b, float* y) {
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

void bias_relu_gradient(const float* y, const float* dy, float* dz, float* db, std::size_t rows,
                        std::size_t columns) {
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

} // namespace host

} // namespace mailgrad
