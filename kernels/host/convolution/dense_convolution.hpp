#pragma once

#include <mailgrad/kernels/convolution.hpp>

namespace mailgrad {

/// Keeps oneDNN on the calling thread, since each CPU device has one thread. Every function that uses oneDNN
/// calls this first; after a thread's first call it costs nothing.
void use_one_thread() noexcept;

// The passes of a convolution that read every value, zeros included. No extent is 0.

// These two are defined in direct_convolution.cpp.
std::unique_ptr<convolution_plan> plan_dense_convolution(const convolution_shape& c);
std::unique_ptr<convolution_plan> plan_dense_weight_gradient(const convolution_shape& c);

/// Plans the data gradient by oneDNN, or by Eigen in a build without it. oneDNN allocates a few small blocks
/// in each run.
std::unique_ptr<convolution_plan> plan_dense_data_gradient(const convolution_shape& c);

} // namespace mailgrad
