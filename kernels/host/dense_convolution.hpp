#pragma once

#include <mailgrad/kernels/convolution.hpp>

namespace mailgrad {

// The passes of a convolution that reads every value: oneDNN's, or Eigen's without it. No extent is 0.

std::unique_ptr<convolution_plan> plan_dense_convolution(const convolution_shape& c);
std::unique_ptr<convolution_plan> plan_dense_data_gradient(const convolution_shape& c);
std::unique_ptr<convolution_plan> plan_dense_weight_gradient(const convolution_shape& c);

} // namespace mailgrad
