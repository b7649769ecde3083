#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/cuda/convolution_sources.hpp>

namespace mailgrad::cuda {

void convolution(const cuda_stream& s, const convolution_shape& c, const float* x, const float* w, float* y) {
  const window_numbers n = numbers_of(c);
  const lines_of_windows left{{n, x, n.channels % 4 == 0 && are_packs(x)}};
  const matrix_columns right{w, n.values, n.out_channels, n.out_channels % 4 == 0 && are_packs(w)};
  implicit_product(s, "convolution", left, right, {y, n.windows, n.out_channels, n.values, 0, false});
}

} // namespace mailgrad::cuda
