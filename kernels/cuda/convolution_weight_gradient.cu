#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/cuda/convolution_sources.hpp>

namespace mailgrad::cuda {

void convolution_weight_gradient(const cuda_stream& s, const convolution_shape& c, const float* x,
                                 const float* dy, float* dw) {
  const window_numbers n = numbers_of(c);
  const lines_of_values left{{n, x, n.channels % 4 == 0 && are_packs(x)}};
  const matrix_columns right{dy, n.windows, n.out_channels, n.out_channels % 4 == 0 && are_packs(dy)};
  implicit_product(s, "convolution_weight_gradient", left, right,
                   {dw, n.values, n.out_channels, n.windows, 0, false});
}

} // namespace mailgrad::cuda
