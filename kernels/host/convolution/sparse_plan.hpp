#pragma once

#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/host/convolution/scratch_parts.hpp>
#include <mailgrad/kernels/host/convolution/sparse_terms.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace mailgrad {

/// The part of dy that may be nonzero; with more of it, skipping zeros is slower than the dense kernels.
inline constexpr double dense_part = 0.6;

/// How one image is laid out for the sparse kernels: with its padding, and with the channels in blocks. A
/// block is so small that it stays in the L1 cache, and that a row of a window has at most `max_packets`
/// packets.
struct blocked_image {
  explicit blocked_image(const window_grid& g)
      : height((g.out_height - 1) * g.stride_rows + g.rows),
        width((g.out_width - 1) * g.stride_columns + g.columns) {
    const std::size_t packets = (g.channels + packet_size - 1) / packet_size;
    blocks = (packets + max_packets / g.columns - 1) / (max_packets / g.columns);
    channels = (packets + blocks - 1) / blocks * packet_size;
    run = g.columns * channels;
  }

  std::size_t block_size() const noexcept { return height * width * channels; }
  std::size_t size() const noexcept { return blocks * block_size(); }
  std::size_t window_offset(const window_grid& g, std::size_t i, std::size_t j) const noexcept {
    return (i * g.stride_rows * width + j * g.stride_columns) * channels;
  }

  std::size_t height, width;
  std::size_t blocks = 0;
  std::size_t channels = 0; ///< in one block, a multiple of `packet_size`
  std::size_t run = 0;      ///< floats in one row of a window
};

/// The common part of both gradients that skip zeros: the layout of the image and that of the weights.
class sparse_plan : public convolution_plan {
public:
  sparse_plan(const convolution_shape& c, std::unique_ptr<convolution_plan> dense)
      : shape_(c), layout_(c.windows), add_terms_(add_terms_of(layout_.run / packet_size)),
        dense_(std::move(dense)) {}

protected:
  const window_grid& grid() const { return shape_.windows; }

  bool too_dense(const float* dy) const {
    std::uint32_t filled = 0;
#pragma omp simd reduction(+ : filled)
    for (std::size_t k = 0; k < shape_.y_size(); ++k) filled += dy[k] != 0.0F ? 1U : 0U;
    return static_cast<double>(filled) > dense_part * static_cast<double>(shape_.y_size());
  }

  /// The offset of the weights of output channel `out`, in row `row` of the window, for channel block
  /// `block`.
  std::size_t run_offset(std::size_t block, std::size_t row, std::size_t out) const {
    return ((block * grid().rows + row) * shape_.out_channels + out) * layout_.run;
  }
  std::size_t runs_size() const { return run_offset(layout_.blocks, 0, 0); }

  /// Calls visit(index in the caller's weights, index in the runs) for each weight.
  template <class Visit>
  void for_each_weight(Visit visit) const {
    std::size_t k = 0;
    for (std::size_t row = 0; row < grid().rows; ++row)
      for (std::size_t column = 0; column < grid().columns; ++column)
        for (std::size_t c = 0; c < grid().channels; ++c) {
          const std::size_t in_run = column * layout_.channels + c % layout_.channels;
          std::size_t in_runs = run_offset(c / layout_.channels, row, 0) + in_run;
          for (std::size_t out = 0; out < shape_.out_channels; ++out, in_runs += layout_.run)
            visit(k++, in_runs);
        }
  }

  /// Calls visit(offset in the caller's image, offset in the blocked image, count) for every pixel and
  /// channel block that a window reaches.
  template <class Visit>
  void for_each_pixel(Visit visit) const {
    const std::size_t rows =
        std::min(grid().height, layout_.height - std::min(layout_.height, grid().pad_top));
    const std::size_t columns =
        std::min(grid().width, layout_.width - std::min(layout_.width, grid().pad_left));
    for (std::size_t block = 0; block < layout_.blocks; ++block) {
      const std::size_t first = block * layout_.channels;
      const std::size_t count = std::min(layout_.channels, grid().channels - first);
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < columns; ++j)
          visit((i * grid().width + j) * grid().channels + first,
                block * layout_.block_size() +
                    ((i + grid().pad_top) * layout_.width + j + grid().pad_left) * layout_.channels,
                count);
    }
  }

  convolution_shape shape_;
  blocked_image layout_;
  add_terms_function add_terms_;
  std::unique_ptr<convolution_plan> dense_;
};

} // namespace mailgrad
