#pragma once

#include <mailgrad/kernels/accumulate.hpp>

namespace mailgrad::cuda {

// kernels/accumulate.hpp on a stream of a card. The caller has checked all sizes.

void fill(const cuda_stream& s, float value, std::span<float> x);
void begin_sum(const cuda_stream& s, float scale, std::span<const float> x, std::span<float> sum);
void add_to_sum(const cuda_stream& s, float scale, std::span<const float> x, std::span<float> sum);
void scale_in_place(const cuda_stream& s, float scale, std::span<float> x);

} // namespace mailgrad::cuda
