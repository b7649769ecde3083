#pragma once

#include <mailgrad/kernels/functors/elementwise_function.hpp>
#include <mailgrad/tensor/shape.hpp>
#include <mailgrad/tensor/small_floats.hpp>
#include <mailgrad/tensor/stream.hpp>

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
/// Errors  shape_error for a chain that refers to inputs, steps or outputs that are not there.
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
void broadcast(const stream& s, elementwise_function f, const broadcast_plan& plan, const float* a,
               const float* b, float* y);

/// The gradient of y = relu(x + b), in one pass: dz = dy where y > 0 and 0 elsewhere, and db, the sum of dz
/// over rows.
///
/// Shapes  y, dy, dz: float32[rows, columns]; db: float32[columns]. dz may be the memory of dy or y.
void bias_relu_gradient(const stream& s, const float* y, const float* dy, float* dz, float* db,
                        std::size_t rows, std::size_t columns);

/// Computes y = gelu(x + b) and the slope of gelu at x + b. Both need the same expensive function, so
/// computing the slope here leaves only a product for the gradient.
///
/// Source  Hendrycks & Gimpel, arXiv:1606.08415: z Phi(z), with slope Phi(z) + z phi(z).
/// Shapes  x, y, slope: float32[rows, columns], on a GPU each may be bfloat16; b: [columns]. y may be x
///         if both are of one type.
void bias_gelu(const stream& s, read_numbers x, const float* b, written_numbers y, written_numbers slope,
               std::size_t rows, std::size_t columns);

/// dz = slope * dy, and db, its sum over rows.
///
/// Shapes  as bias_gelu, with dy and dz as x and y.
void bias_gelu_gradient(const stream& s, read_numbers slope, read_numbers dy, written_numbers dz, float* db,
                        std::size_t rows, std::size_t columns);

/// Decides which elements are dropped. The decision depends only on the rate, the seed, the step and the
/// position.
struct dropout_draw {
  float rate = 0.5F; ///< the probability that an element is dropped, in [0, 1)
  std::uint64_t seed = 0;
  std::uint64_t step = 0; ///< on a GPU its own word of the step counts instead (cuda::stream_status)

  /// An element is dropped if its random number is below this.
  std::uint32_t threshold() const { return static_cast<std::uint32_t>(static_cast<double>(rate) * 0x1p32); }
  /// The factor of the others.
  float scale() const { return 1 / (1 - rate); }
};

/// Zeroes each element with probability `rate` and divides the others by 1 - rate, which keeps the mean. For
/// a gradient it drops the same elements as in the forward pass, so no mask is stored.
///
/// Source  Srivastava et al., "Dropout", JMLR 15, 2014, section 10 for the scaling while training.
/// Shapes  x, y: float32[size]; y may be x.
void dropout(const stream& s, const dropout_draw& draw, const float* x, float* y, std::size_t size);

/// Rounds each number to the nearest bfloat16, of two equally near to the one whose last bit is 0. A NaN
/// stays one; what rounds to 2^128 becomes infinite. It is for operands of products on a GPU;
/// encodings.hpp has what messages are made of.
///
/// Shapes  y: bfloat16[n], apart from x.
void round_floats(const stream& s, std::span<const float> x, bfloat16* y);

/// The float32 that each bfloat16 is, exactly.
///
/// Shapes  y: float32[n], apart from x.
void widen_floats(const stream& s, std::span<const bfloat16> x, float* y);

} // namespace mailgrad
