#pragma once

#include <mailgrad/kernels/convolution.hpp>

namespace mailgrad {

// Gradients of a convolution that skip the zeros of dy. Where max pooling and relu follow the convolution, at
// most a quarter of dy is not zero, and often an eighth; the work shrinks by as much. A zero of dy times an
// infinity or a NaN is 0 here. If too much of dy is not zero, `dense` does the work. That choice depends only
// on dy, so the same operands still give the same bits.
//
// Windows have at most max_packets columns. No extent is 0.

std::unique_ptr<convolution_plan> plan_sparse_data_gradient(const convolution_shape& c,
                                                            std::unique_ptr<convolution_plan> dense);
std::unique_ptr<convolution_plan> plan_sparse_weight_gradient(const convolution_shape& c,
                                                              std::unique_ptr<convolution_plan> dense);

} // namespace mailgrad
