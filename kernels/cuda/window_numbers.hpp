#pragma once

#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/cuda/divider.hpp>

#include <cstdint>

namespace mailgrad::cuda {

/// What a card's kernels must know of the windows of a convolution, in 32 bits.
struct window_numbers {
  std::uint32_t height, width, channels, out_channels;
  std::uint32_t out_height, out_width;
  std::uint32_t windows;                     ///< of the whole batch
  std::uint32_t pixels;                      ///< likewise
  std::uint32_t values;                      ///< of one window
  std::uint32_t image_values, result_values; ///< of one image, and of what becomes of it
  std::int32_t pad_top, pad_left;
  divider<std::uint32_t> per_image, per_row;            ///< windows
  divider<std::uint32_t> columns, by_channels, by_outs; ///< of a window; channels
  divider<std::uint32_t> by_pixels, by_width;           ///< of an image
  divider<std::uint32_t> stride_rows, stride_columns;
};

/// Errors  shape_error for 2^31 windows or pixels, or more, or images of as many values.
window_numbers numbers_of(const convolution_shape& c);

} // namespace mailgrad::cuda
