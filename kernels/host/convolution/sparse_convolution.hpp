#pragma once

#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/host/vector.hpp>
#include <mailgrad/tensor/block.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace mailgrad {

/// Divides scratch memory into aligned parts. Without memory, it only counts their bytes.
class scratch_parts {
public:
  explicit scratch_parts(std::byte* memory = nullptr) : memory_(memory) {}

  template <class T>
  std::span<T> take(std::size_t count) {
    auto* first = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += aligned(count * sizeof(T));
    return {first, memory_ ? count : 0};
  }
  std::size_t used() const noexcept { return used_; }

private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

/// A value that is not zero, and the offset of the run of floats that it multiplies.
struct term {
  float factor;
  std::uint32_t offset;
};

inline constexpr std::size_t packet_size = simd::width; ///< floats in one vector register
inline constexpr std::size_t max_packets = 12; ///< sums that fit into 16 registers with the other operands

/// sum[0 .. n) += factor * base[offset .. offset + n) for all terms, in their order.
using add_terms_function = void (*)(float* sum, std::span<const term> terms, const float* base);

/// Returns the function for runs of n = packets * packet_size floats, 0 < packets <= max_packets. It keeps
/// the sums in registers.
add_terms_function add_terms_of(std::size_t packets) noexcept;

/// Bit k tells whether values[k] is not zero, for n <= 64 values.
std::uint64_t filled_mask(const float* values, std::size_t n) noexcept;

/// Calls visit(k) for each of n values that is not zero, in order.
template <class Visit>
void for_each_filled(const float* values, std::size_t n, Visit visit) {
  for (std::size_t first = 0; first < n; first += 64)
    for (std::uint64_t left = filled_mask(values + first, std::min<std::size_t>(n - first, 64)); left != 0;
         left &= left - 1)
      visit(first + static_cast<std::size_t>(std::countr_zero(left)));
}

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
