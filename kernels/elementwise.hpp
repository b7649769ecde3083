#pragma once

#include <mailgrad/kernels/functors/elementwise_function.hpp>
#include <mailgrad/tensor/shape.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mailgrad {

/// y[i] = f(a[i], b[i]); an operand that stands still is a[0] or b[0] for all i.
using elementwise_loop = void (*)(const float* a, const float* b, float* y, std::size_t n);

/// A chain of functions that is computed in one pass over the elements. Results between its steps stay in
/// registers or the L1 cache.
///
/// Operands are numbered: first the inputs, then the results of the steps in their order.
struct elementwise_chain {
  static constexpr std::size_t max_inputs = 8;
  static constexpr std::size_t max_steps = 8;

  struct step {
    elementwise_function function = elementwise_function::copy;
    std::uint8_t a = 0;
    std::uint8_t b = 0;      ///< same as `a` where the function takes one number
    std::int8_t output = -1; ///< the output that takes this step's result; negative if none does
  };
  /// Whether an input has an element for each element of the result, or one element for all.
  enum class extent : std::uint8_t { full, one };

  std::array<extent, max_inputs> inputs{};
  std::array<step, max_steps> steps{};
  std::uint8_t input_count = 0;
  std::uint8_t step_count = 0;

  /// Bytes of scratch memory that elementwise() needs for results between the steps.
  std::size_t scratch_bytes() const noexcept;
};

/// Runs the chain over n elements. A step gives the same bits in a chain as on its own.
///
/// Shapes  inputs: float32[n], or [1]; outputs: float32[n]. An output may be the memory of an input of n
///         elements that no later step reads.
/// Errors  shape_error for a chain that refers to inputs, steps or outputs that are not there; device_error
///         for a GPU this build lacks.
void elementwise(const stream& s, const elementwise_chain& chain, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t n, void* scratch);

/// How two operands are repeated to fill a result: strides in elements, 0 where an operand is repeated.
struct broadcast_plan {
  std::array<std::size_t, shape::max_rank> extents{};
  std::array<std::size_t, shape::max_rank> a{};
  std::array<std::size_t, shape::max_rank> b{};
  std::size_t rank = 0; ///< the number of axes left after joining those with matching strides; at least 1
};

/// Plans how a and b are repeated.
///
/// Shapes  a, b: aligned with `result` at the last axis; each extent is that of `result` or 1.
/// Errors  shape_error if an extent is neither.
broadcast_plan plan_broadcast(const shape& a, const shape& b, const shape& result);

/// y = f(a, b) with a and b repeated as planned. A function of one number is applied to a.
///
/// Shapes  y may be the memory of an operand that is not repeated.
/// Errors  device_error for a GPU this build lacks.
void broadcast(const stream& s, elementwise_function f, const broadcast_plan& plan, const float* a,
               const float* b, float* y);

/// The gradient of y = relu(x + b), in one pass: dz = dy where y > 0 and 0 elsewhere, and db, the sum of dz
/// over rows.
///
/// Shapes  y, dy, dz: float32[rows, columns]; db: float32[columns]. dz may be the memory of dy or y.
/// Errors  device_error for a GPU this build lacks.
void bias_relu_gradient(const stream& s, const float* y, const float* dy, float* dz, float* db,
                        std::size_t rows, std::size_t columns);

} // namespace mailgrad

namespace mailgrad::host {

// The same on the calling thread.

void elementwise(const elementwise_chain& chain, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t n, void* scratch);
void broadcast(elementwise_function f, const broadcast_plan& plan, const float* a, const float* b, float* y);
void bias_relu_gradient(const float* y, const float* dy, float* dz, float* db, std::size_t rows,
                        std::size_t columns);

} // namespace mailgrad::host

namespace mailgrad::cuda {

// The same on a card.

void elementwise(const cuda_stream& s, const elementwise_chain& chain, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t n);
void broadcast(const cuda_stream& s, elementwise_function f, const broadcast_plan& plan, const float* a,
               const float* b, float* y);
void bias_relu_gradient(const cuda_stream& s, const float* y, const float* dy, float* dz, float* db,
                        std::size_t rows, std::size_t columns);

} // namespace mailgrad::cuda
