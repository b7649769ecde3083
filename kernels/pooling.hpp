#pragma once

#include <mailgrad/kernels/convolution.hpp>

namespace mailgrad {

/// The largest value of each window and channel, and its position in the window.
///
/// Shapes  x: float32[batch, height, width, channels]; y, chosen: [batch, out_height, out_width, channels].
/// Units   chosen: row * columns + column within the window; the first of equal values or of NaNs.
void max_pool(const stream& s, const window_grid& g, const float* x, float* y, std::int32_t* chosen);

/// An element of dx is the sum of dy over the windows that chose this element of x. A GPU gathers these in
/// the order in which the host adds them, so that the results have the same bits.
void max_pool_gradient(const stream& s, const window_grid& g, const float* dy, const std::int32_t* chosen,
                       float* dx);

/// The mean of each window and channel, over the values inside the image.
///
/// Shapes  as max_pool.
void average_pool(const stream& s, const window_grid& g, const float* x, float* y);

void average_pool_gradient(const stream& s, const window_grid& g, const float* dy, float* dx);

} // namespace mailgrad
