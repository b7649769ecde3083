#pragma once

#include <mailgrad/kernels/distance.hpp>

namespace mailgrad::cuda {

// kernels/distance.hpp on a stream of a card. The caller has checked all sizes.

void inner_product(const cuda_stream& s, std::span<const float> a, std::span<const float> b, double* result);
void squared_distance(const cuda_stream& s, std::span<const float> a, std::span<const float> b,
                      double* result);

} // namespace mailgrad::cuda
