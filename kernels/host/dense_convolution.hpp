#pragma once

#include <mailgrad/kernels/convolution.hpp>

namespace mailgrad {

// The passes of a convolution that read every value. No extent is 0.

// In direct_convolution.cpp.
std::unique_ptr<convolution_plan> plan_dense_convolution(const convolution_shape& c);
std::unique_ptr<convolution_plan> plan_dense_weight_gradient(const convolution_shape& c);

/// By oneDNN, which allocates a few small blocks in each run, or by Eigen without it.
std::unique_ptr<convolution_plan> plan_dense_data_gradient(const convolution_shape& c);

} // namespace mailgrad
