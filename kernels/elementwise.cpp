#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/functors/philox.hpp>
#include <mailgrad/kernels/gpu_body.hpp>
#include <mailgrad/kernels/host/rows.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {
namespace {

enum class stepping : std::size_t { still = 0, along = 1 };

template <class Functor, std::size_t StepA, std::size_t StepB>
void loop(const float* a, const float* b, float* y, std::size_t n) {
  const Functor f;
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) y[i] = apply(f, a[i * StepA], b[i * StepB]);
}

template <class Functor>
elementwise_loop loop_of(stepping a, stepping b) {
  if constexpr (std::is_invocable_v<Functor, float>)
    return a == stepping::along ? loop<Functor, 1, 0> : loop<Functor, 0, 0>;
  else if (a == stepping::along)
    return b == stepping::along ? loop<Functor, 1, 1> : loop<Functor, 1, 0>;
  else
    return b == stepping::along ? loop<Functor, 0, 1> : loop<Functor, 0, 0>;
}

elementwise_loop find_loop(elementwise_function f, stepping a, stepping b) {
  return with_functor(f, [=]<class Functor>(Functor) { return loop_of<Functor>(a, b); });
}

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

/// The number of elements that pass through the whole chain together. Results between its steps stay in the
/// L1 cache.
constexpr std::size_t chain_tile = 1024;

constexpr std::size_t max_operands = elementwise_chain::max_inputs + elementwise_chain::max_steps;

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

constexpr std::size_t lanes = 8; ///< counters whose numbers are drawn side by side
constexpr std::size_t numbers_at_once = 4 * lanes;

/// Draws the numbers of counters first to first + lanes - 1. Number k of counter first + i lies at k * lanes
/// + i.
void draw_numbers(const philox& random, std::uint64_t first, std::uint64_t step,
                  std::array<std::uint32_t, numbers_at_once>& numbers) {
#pragma omp simd
  for (std::size_t i = 0; i < lanes; ++i) {
    const philox::numbers x = random(first + i, step);
    numbers[i] = x.x0;
    numbers[lanes + i] = x.x1;
    numbers[2 * lanes + i] = x.x2;
    numbers[3 * lanes + i] = x.x3;
  }
}

} // namespace

void elementwise(const stream& s, const elementwise_chain& chain, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t n, void* scratch) {
  require_sound(chain, inputs.size(), outputs.size());
  if (on_gpu<elementwise>(s, chain, inputs, outputs, n, scratch)) return;
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
  if (on_gpu<broadcast>(s, f, plan, a, b, y)) return;
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
  if (on_gpu<bias_relu_gradient>(s, y, dy, dz, db, rows, columns)) return;
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

std::size_t elementwise_chain::scratch_bytes() const noexcept {
  const auto between =
      std::ranges::count_if(std::span(steps).first(step_count), [](const step& s) { return s.output < 0; });
  return static_cast<std::size_t>(between) * chain_tile * sizeof(float);
}

void bias_gelu(const stream& s, read_numbers x, const float* b, written_numbers y, written_numbers slope,
               std::size_t rows, std::size_t columns) {
  if (on_gpu<bias_gelu>(s, x, b, y, slope, rows, columns)) return;
  const float* const from = floats_of(x, "bias_gelu");
  float *const to = floats_of(y, "bias_gelu"), *const slopes = floats_of(slope, "bias_gelu");
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t first = row * columns;
#pragma omp simd
    for (std::size_t i = 0; i < columns; ++i) {
      const float z = from[first + i] + b[i];
      const approximate::normal_parts normal = approximate::normal_at(z);
      to[first + i] = z * normal.share;
      slopes[first + i] = normal.share + z * normal.density;
    }
  }
}

void bias_gelu_gradient(const stream& s, read_numbers slope, read_numbers dy, written_numbers dz, float* db,
                        std::size_t rows, std::size_t columns) {
  if (on_gpu<bias_gelu_gradient>(s, slope, dy, dz, db, rows, columns)) return;
  const float* const slopes = floats_of(slope, "bias_gelu_gradient");
  const float* const from = floats_of(dy, "bias_gelu_gradient");
  float* const to = floats_of(dz, "bias_gelu_gradient");
  std::fill_n(db, columns, 0.0F);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t first = row * columns;
#pragma omp simd
    for (std::size_t i = 0; i < columns; ++i) {
      const float d = slopes[first + i] * from[first + i];
      to[first + i] = d;
      db[i] += d;
    }
  }
}

void dropout(const stream& s, const dropout_draw& draw, const float* x, float* y, std::size_t size) {
  if (on_gpu<dropout>(s, draw, x, y, size)) return;
  const philox random = philox::of(draw.seed);
  const std::uint32_t threshold = draw.threshold();
  const float scale = draw.scale();
  std::array<std::uint32_t, numbers_at_once> numbers;
  for (std::size_t first = 0; first < size; first += numbers_at_once) {
    draw_numbers(random, first / 4, draw.step, numbers);
    const std::size_t count = std::min(numbers_at_once, size - first);
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i)
      y[first + i] = numbers[i] < threshold ? 0.0F : x[first + i] * scale;
  }
}

void round_floats(const stream& s, std::span<const float> x, bfloat16* y) {
  if (on_gpu<round_floats>(s, x, y)) return;
  std::ranges::transform(x, y, [](float v) { return bfloat16{bfloat16_of_float(v)}; });
}

void widen_floats(const stream& s, std::span<const bfloat16> x, float* y) {
  if (on_gpu<widen_floats>(s, x, y)) return;
  std::ranges::transform(x, y, [](bfloat16 v) { return float_of_bfloat16(v.bits); });
}

} // namespace mailgrad
