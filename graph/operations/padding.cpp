#include <mailgrad/graph/operations/padding.hpp>

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace mailgrad {

namespace {

/// Windows along one axis.
struct axis {
  std::size_t before, after, count;
};

axis place_along(std::size_t extent, std::size_t window, std::size_t stride, const padding& pad,
                 std::size_t which) {
  std::size_t before = 0;
  std::size_t after = 0;
  if (pad.how == padding::rule::same) {
    const std::size_t covered = ((extent + stride - 1) / stride - 1) * stride + window;
    const std::size_t missing = covered - std::min(covered, extent);
    before = missing / 2;
    after = missing - before;
  } else if (pad.how == padding::rule::given) {
    before = pad.before[which];
    after = pad.after[which];
  }
  const std::string_view name = which == 0 ? "rows" : "columns";
  if (std::max(before, after) >= window)
    throw shape_error(
        fmt::format("{} {} of padding need a window of more than {}", std::max(before, after), name, window));
  const std::size_t padded = extent + before + after;
  if (window > padded)
    throw shape_error(fmt::format("a window of {} {} does not fit into {}", window, name, padded));
  return {before, after, (padded - window) / stride + 1};
}

} // namespace

std::string to_string(const padding& p) {
  if (p.how == padding::rule::same) return "padding same";
  if (p.how == padding::rule::valid) return "padding valid";
  return fmt::format("padding {}+{} {}+{}", p.before[0], p.after[0], p.before[1], p.after[1]);
}

window_grid place_windows(const shape& image, const std::array<std::size_t, 2>& window,
                          const std::array<std::size_t, 2>& stride, const padding& pad) {
  if (image.rank() != 4)
    throw shape_error(
        fmt::format("images are [batch, height, width, channels], not of rank {}", image.rank()));
  if (image[1] == 0 || image[2] == 0) throw shape_error("an image has no pixels");
  if (window[0] == 0 || window[1] == 0)
    throw shape_error(fmt::format("a window of {}x{}", window[0], window[1]));
  if (stride[0] == 0 || stride[1] == 0)
    throw shape_error(fmt::format("a stride of {}x{}", stride[0], stride[1]));
  constexpr std::size_t most = std::size_t{1} << 31;
  if (std::max({window[0], window[1], stride[0], stride[1]}) > most)
    throw shape_error(fmt::format("windows of {}x{} every {}x{} pixels; at most {} are possible", window[0],
                                  window[1], stride[0], stride[1], most));
  const axis down = place_along(image[1], window[0], stride[0], pad, 0);
  const axis across = place_along(image[2], window[1], stride[1], pad, 1);
  return {.batch = image[0],
          .height = image[1],
          .width = image[2],
          .channels = image[3],
          .rows = window[0],
          .columns = window[1],
          .stride_rows = stride[0],
          .stride_columns = stride[1],
          .pad_top = down.before,
          .pad_left = across.before,
          .pad_bottom = down.after,
          .pad_right = across.after,
          .out_height = down.count,
          .out_width = across.count};
}

std::vector<onnx_attribute> onnx_windows(const window_grid& g) {
  const auto list = [](std::initializer_list<std::size_t> extents) {
    return std::vector<std::int64_t>(extents.begin(), extents.end());
  };
  return {{"kernel_shape", list({g.rows, g.columns})},
          {"strides", list({g.stride_rows, g.stride_columns})},
          {"pads", list({g.pad_top, g.pad_left, g.pad_bottom, g.pad_right})}};
}

} // namespace mailgrad
