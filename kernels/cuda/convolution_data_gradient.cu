#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/cuda/convolution_sources.hpp>

namespace mailgrad::cuda {

void convolution_data_gradient(const cuda_stream& s, const convolution_shape& c, const float* dy,
                               const float* w, float* dx) {
  const window_numbers n = numbers_of(c);
  const std::uint32_t depth = n.values / n.channels * n.out_channels;
  const bool packs = n.out_channels % 4 == 0;
  const lines_of_pixels left{n, dy, depth, packs && are_packs(dy)};
  const columns_of_channels right{n, w, depth, packs && are_packs(w)};
  implicit_product(s, "convolution_data_gradient", left, right, {dx, n.pixels, n.channels, depth, 0, false});
}

} // namespace mailgrad::cuda
