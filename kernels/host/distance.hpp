#pragma once

#include <span>

namespace mailgrad::host {

// kernels/distance.hpp on the calling thread. The caller has checked all sizes.

double inner_product(std::span<const float> a, std::span<const float> b);
double squared_distance(std::span<const float> a, std::span<const float> b);

} // namespace mailgrad::host
