#pragma once

#include <mailgrad/kernels/convolution.hpp>

namespace mailgrad::cuda {

// The CUDA half of kernels/convolution.hpp: each pass is a matrix product whose operands are read where they
// lie. Sums over many windows are cut into parts, which lie in the stream's scratch memory until they are
// added up.
//
// Errors  shape_error for 2^31 windows or pixels, or more, and for images of as many values.

void convolution(const cuda_stream& s, const convolution_shape& c, const float* x, const float* w, float* y);
void convolution_data_gradient(const cuda_stream& s, const convolution_shape& c, const float* dy,
                               const float* w, float* dx);
void convolution_weight_gradient(const cuda_stream& s, const convolution_shape& c, const float* x,
                                 const float* dy, float* dw);
/// The result of a convolution without windows, channels or images.
void clear(const cuda_stream& s, float* result, std::size_t n);

} // namespace mailgrad::cuda
