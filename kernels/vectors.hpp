#pragma once

#include <mailgrad/kernels/functors/weight_functions.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <span>

namespace mailgrad {

// Sums of parts that arrive one after the other, such as the gradients of micro-batches.
//
// Shapes  x and sum: float32[n], the same n, in memory that does not overlap.
// Errors  shape_error if sizes differ.

/// x = value
void fill(const stream& s, float value, std::span<float> x);
/// sum = scale * x
void begin_sum(const stream& s, float scale, std::span<const float> x, std::span<float> sum);
/// sum += scale * x
void add_to_sum(const stream& s, float scale, std::span<const float> x, std::span<float> sum);
/// x *= scale
void scale_in_place(const stream& s, float scale, std::span<float> x);

/// Calls `f` for each of n weights, with one element of each array that it reads and of each that it writes.
///
/// Shapes  every array: float32[n]. An array that is written may also be read; otherwise arrays lie apart.
/// Errors  shape_error for another number of arrays than `f` takes.
/// Threads one caller at a time for one array that is written.
void map_weights(const stream& s, const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n);

// Sums in float64. The same values give the same bits in every run; a GPU adds in another order than the
// host.
//
// Shapes  a, b: float32[n], the same n. `result` lies in memory of the stream.
// Errors  shape_error if sizes differ; device_error for any GPU where the sum is returned, since a GPU's
//         kernels have still to run then.

/// Whose numbers are summed.
enum class pair_sum : std::uint8_t { inner_product, squared_distance };
void sum_pairs(const stream& s, pair_sum what, std::span<const float> a, std::span<const float> b,
               double* result);

/// The sum of a[i] * b[i].
double inner_product(const stream& s, std::span<const float> a, std::span<const float> b);
void inner_product(const stream& s, std::span<const float> a, std::span<const float> b, double* result);

/// The sum of (a[i] - b[i])^2; exactly 0 for the same values.
double squared_distance(const stream& s, std::span<const float> a, std::span<const float> b);
void squared_distance(const stream& s, std::span<const float> a, std::span<const float> b, double* result);

} // namespace mailgrad
