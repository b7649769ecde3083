#pragma once

#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <memory>

namespace mailgrad {

/// Windows that slide over a batch of images, channels last: float32[batch, height, width, channels].
///
/// Window (i, j) of an image starts at row i * stride_rows - pad_top and column j * stride_columns -
/// pad_left; what lies outside the image is padding.
struct window_grid {
  std::size_t batch = 0, height = 0, width = 0, channels = 0;
  std::size_t rows = 1, columns = 1; ///< of one window
  std::size_t stride_rows = 1, stride_columns = 1;
  std::size_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  std::size_t out_height = 0, out_width = 0; ///< number of windows down and across

  std::size_t image_size() const noexcept { return height * width * channels; }
  std::size_t windows() const noexcept { return out_height * out_width; }
  /// The number of values in one window.
  std::size_t window_size() const noexcept { return rows * columns * channels; }
};

/// The positions of a window, along one axis, that lie inside the image: [first, last).
struct inside {
  std::size_t first, last;

  constexpr inside(std::size_t window, std::size_t stride, std::size_t pad, std::size_t length,
                   std::size_t extent) noexcept
      : first(window * stride < pad ? pad - window * stride : 0),
        last(window * stride + length > pad + extent ? clipped(window * stride, pad + extent) : length) {}

private:
  static constexpr std::size_t clipped(std::size_t start, std::size_t end) noexcept {
    return end > start ? end - start : 0;
  }
};

/// x: float32[batch, height, width, channels]; w: float32[rows, columns, channels, out_channels];
/// y: float32[batch, out_height, out_width, out_channels].
struct convolution_shape {
  window_grid windows;
  std::size_t out_channels = 0;

  std::size_t x_size() const noexcept { return windows.batch * windows.image_size(); }
  std::size_t w_size() const noexcept { return windows.window_size() * out_channels; }
  std::size_t y_size() const noexcept { return windows.batch * windows.windows() * out_channels; }
};

/// One of the three passes of a convolution, prepared for one shape.
///
/// Errors  device_error for a stream of another kind of device than the plan's; shape_error on a GPU for
///         2^31 windows or pixels, or more, and for images of as many values.
/// Threads one caller at a time. The same operands give the same bits.
class convolution_plan {
public:
  virtual ~convolution_plan() = default;
  /// Memory that run() needs besides its operands, 64-byte aligned.
  virtual std::size_t scratch_bytes() const noexcept { return 0; }
  virtual void run(const stream& s, const float* left, const float* right, float* result, void* scratch) = 0;
};

// Plans for the processors of this machine, or for a GPU.

/// y from x and w.
std::unique_ptr<convolution_plan> plan_convolution(const convolution_shape& c,
                                                   device_kind where = device_kind::cpu);
/// The gradient dx from dy and w.
std::unique_ptr<convolution_plan> plan_convolution_data_gradient(const convolution_shape& c,
                                                                 device_kind where = device_kind::cpu);
/// The gradient dw from x and dy.
std::unique_ptr<convolution_plan> plan_convolution_weight_gradient(const convolution_shape& c,
                                                                   device_kind where = device_kind::cpu);

} // namespace mailgrad
