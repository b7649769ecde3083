#pragma once

#include <span>

namespace mailgrad::host {

// kernels/accumulate.hpp on the calling thread. The caller has checked all sizes.

void fill(float value, std::span<float> x);
void begin_sum(float scale, std::span<const float> x, std::span<float> sum);
void add_to_sum(float scale, std::span<const float> x, std::span<float> sum);
void scale_in_place(float scale, std::span<float> x);

} // namespace mailgrad::host
