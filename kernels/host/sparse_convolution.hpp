#pragma once

#include <mailgrad/kernels/convolution.hpp>

namespace mailgrad {

// Gradients of a convolution that skip the zeros of dy. Behind max pooling and relu at most a quarter of dy,
// and often an eighth, is not zero; the work shrinks by as much. A zero counts as nothing even against an
// infinity or a NaN of the other operand. Where too much of dy is not zero, `dense` does the work: the choice
// depends on dy alone, so the same operands still give the same bits.
//
// Windows have at most max_packets columns. No extent is 0.

std::unique_ptr<convolution_plan> plan_sparse_data_gradient(const convolution_shape& c,
                                                            std::unique_ptr<convolution_plan> dense);
std::unique_ptr<convolution_plan> plan_sparse_weight_gradient(const convolution_shape& c,
                                                              std::unique_ptr<convolution_plan> dense);

} // namespace mailgrad
