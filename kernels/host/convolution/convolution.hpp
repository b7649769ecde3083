#pragma once

#include <mailgrad/kernels/convolution.hpp>

namespace mailgrad::host {

// The plans of kernels/convolution.hpp for the calling thread. No extent is 0.

std::unique_ptr<convolution_plan> plan_convolution(const convolution_shape& c);
std::unique_ptr<convolution_plan> plan_convolution_data_gradient(const convolution_shape& c);
std::unique_ptr<convolution_plan> plan_convolution_weight_gradient(const convolution_shape& c);

} // namespace mailgrad::host
