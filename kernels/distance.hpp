#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <span>

namespace mailgrad {

// Sums in float64. The same values give the same bits in every run; a card adds in another order than the
// host.
//
// Shapes  a, b: float32[n], the same n. `result` lies in memory of the stream.
// Errors  shape_error if sizes differ; device_error for a GPU this build lacks, and for any GPU where the sum
//         is returned, since a GPU's kernels have still to run then.

/// The sum of a[i] * b[i].
double inner_product(const stream& s, std::span<const float> a, std::span<const float> b);
void inner_product(const stream& s, std::span<const float> a, std::span<const float> b, double* result);

/// The sum of (a[i] - b[i])^2; exactly 0 for the same values.
double squared_distance(const stream& s, std::span<const float> a, std::span<const float> b);
void squared_distance(const stream& s, std::span<const float> a, std::span<const float> b, double* result);

} // namespace mailgrad

namespace mailgrad::cuda {

// The same on a card. The caller has checked all sizes.

void inner_product(const cuda_stream& s, std::span<const float> a, std::span<const float> b, double* result);
void squared_distance(const cuda_stream& s, std::span<const float> a, std::span<const float> b,
                      double* result);

} // namespace mailgrad::cuda
