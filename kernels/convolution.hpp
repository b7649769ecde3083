#pragma once

#include <mailgrad/kernels/window.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <memory>

namespace mailgrad {

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
/// Errors  device_error for a stream of another kind of device than the plan's, and for one of a card in a
///         build without CUDA; shape_error on a card for 2^31 windows or more.
/// Threads one caller at a time. The same operands give the same bits.
class convolution_plan {
public:
  virtual ~convolution_plan() = default;
  /// Memory that run() needs besides its operands, 64-byte aligned.
  virtual std::size_t scratch_bytes() const noexcept = 0;
  virtual void run(const stream& s, const float* left, const float* right, float* result, void* scratch) = 0;
};

// Plans for the processors of this machine, or for a card.

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
