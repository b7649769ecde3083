#pragma once

#include <mailgrad/kernels/strided_copy.hpp>

#include <span>

namespace mailgrad::cuda {

/// strided_copy::run() on a stream of a card. There are at least two axes; the last has the smallest step in
/// the target.
void copy_box(const cuda_stream& s, std::span<const copied_axis> axes, const float* from, float* to);

} // namespace mailgrad::cuda
