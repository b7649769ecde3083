#pragma once

#include <mailgrad/kernels/strided_copy.hpp>

#include <span>

namespace mailgrad::host {

/// strided_copy::run() on the calling thread. There are at least two axes; the last two are the plane of the
/// inner loops.
void copy_box(std::span<const copied_axis> axes, const float* from, float* to);

} // namespace mailgrad::host
