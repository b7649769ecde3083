#include <mailgrad/kernels/cuda/indices.hpp>

#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <initializer_list>
#include <limits>

namespace mailgrad::cuda {

namespace {

constexpr std::uint64_t largest_index = std::numeric_limits<std::int32_t>::max();

/// The product of a few extents, each of which is below 2^31.
std::uint32_t checked(const char* what, std::initializer_list<std::size_t> extents) {
  std::uint64_t n = 1;
  for (const std::size_t extent : extents) {
    if (extent > largest_index || n * extent > largest_index)
      throw shape_error(fmt::format("convolution: a card takes fewer than 2^31 {}", what));
    n *= extent;
  }
  return static_cast<std::uint32_t>(n);
}

} // namespace

window_numbers numbers_of(const convolution_shape& c) {
  const window_grid& g = c.windows;
  const auto small = [](std::size_t n) { return checked("positions", {n, 4}) / 4; }; // sums of two still fit
  window_numbers n{};
  n.height = small(g.height);
  n.width = small(g.width);
  n.channels = small(g.channels);
  n.out_channels = small(c.out_channels);
  n.out_height = small(g.out_height);
  n.out_width = small(g.out_width);
  n.windows = checked("windows", {g.batch, g.out_height, g.out_width});
  n.pixels = checked("pixels", {g.batch, g.height, g.width});
  n.values = checked("values of a window", {g.rows, g.columns, g.channels});
  n.pad_top = static_cast<std::int32_t>(small(g.pad_top));
  n.pad_left = static_cast<std::int32_t>(small(g.pad_left));
  checked("values of an image",
          {g.height + g.pad_top + g.rows, g.width + g.pad_left + g.columns, g.channels});
  n.image_values = checked("values of an image", {g.height, g.width, g.channels});
  n.result_values = checked("values of an image", {g.out_height, g.out_width, c.out_channels});
  checked("weights", {n.values, c.out_channels});
  small(g.out_height * g.stride_rows + g.rows);
  small(g.out_width * g.stride_columns + g.columns);
  n.per_image = divider<std::uint32_t>(std::size_t{n.out_height} * n.out_width);
  n.per_row = divider<std::uint32_t>(n.out_width);
  n.columns = divider<std::uint32_t>(small(g.columns));
  n.by_channels = divider<std::uint32_t>(n.channels);
  n.by_outs = divider<std::uint32_t>(n.out_channels);
  n.by_pixels = divider<std::uint32_t>(std::size_t{n.height} * n.width);
  n.by_width = divider<std::uint32_t>(n.width);
  n.stride_rows = divider<std::uint32_t>(small(g.stride_rows));
  n.stride_columns = divider<std::uint32_t>(small(g.stride_columns));
  return n;
}

void clear(const cuda_stream& s, float* result, std::size_t n) {
  if (n > 0) runtime::fill(s.stream, result, 0, n * sizeof(float));
}

} // namespace mailgrad::cuda
