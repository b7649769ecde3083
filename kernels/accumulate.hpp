#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <span>

namespace mailgrad {

// Sums of parts that arrive one after the other, such as the gradients of micro-batches.
//
// Shapes  x and sum: float32[n], the same n, in memory that does not overlap.
// Errors  shape_error if sizes differ; device_error for a GPU this build lacks.

/// x = value
void fill(const stream& s, float value, std::span<float> x);
/// sum = scale * x
void begin_sum(const stream& s, float scale, std::span<const float> x, std::span<float> sum);
/// sum += scale * x
void add_to_sum(const stream& s, float scale, std::span<const float> x, std::span<float> sum);
/// x *= scale
void scale_in_place(const stream& s, float scale, std::span<float> x);

} // namespace mailgrad

namespace mailgrad::cuda {

// The same on a card. The caller has checked all sizes.

void fill(const cuda_stream& s, float value, std::span<float> x);
void begin_sum(const cuda_stream& s, float scale, std::span<const float> x, std::span<float> sum);
void add_to_sum(const cuda_stream& s, float scale, std::span<const float> x, std::span<float> sum);
void scale_in_place(const cuda_stream& s, float scale, std::span<float> x);

} // namespace mailgrad::cuda
