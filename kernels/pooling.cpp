#include <mailgrad/kernels/gpu_body.hpp>
#include <mailgrad/kernels/pooling.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad {
namespace {

/// One window: the place of its results, and the positions that lie inside the image.
struct placed_window {
  std::size_t result;    ///< offset in y of its first channel
  std::size_t image;     ///< offset in x of its image
  std::size_t top, left; ///< row and column of its first position, counted with the padding
  inside rows, columns;
  std::size_t positions() const noexcept { return (rows.last - rows.first) * (columns.last - columns.first); }

  /// Calls visit(position in the window, offset in x of its first channel), row by row.
  template <class Visit>
  void for_each_position(const window_grid& g, Visit visit) const {
    for (std::size_t r = rows.first; r < rows.last; ++r)
      for (std::size_t c = columns.first; c < columns.last; ++c) {
        const std::size_t pixel = (top + r - g.pad_top) * g.width + left + c - g.pad_left;
        visit(static_cast<std::int32_t>(r * g.columns + c), image + pixel * g.channels);
      }
  }
};

template <class Visit>
void for_each_window(const window_grid& g, Visit visit) {
  std::size_t result = 0;
  for (std::size_t image = 0; image < g.batch; ++image)
    for (std::size_t i = 0; i < g.out_height; ++i) {
      const inside rows(i, g.stride_rows, g.pad_top, g.rows, g.height);
      for (std::size_t j = 0; j < g.out_width; ++j, result += g.channels) {
        const inside columns(j, g.stride_columns, g.pad_left, g.columns, g.width);
        visit(placed_window{result, image * g.image_size(), i * g.stride_rows, j * g.stride_columns, rows,
                            columns});
      }
    }
}

/// Whether every pixel lies in exactly one window.
bool tiles_image(const window_grid& g) noexcept {
  return g.rows == g.stride_rows && g.columns == g.stride_columns && g.pad_top == 0 && g.pad_left == 0 &&
         g.out_height * g.rows == g.height && g.out_width * g.columns == g.width;
}

/// Spreads gradients of windows over dx. It adds them up where windows overlap or leave gaps, and stores them
/// otherwise. part(k, position, count) is the gradient at `position` of a window that has `count` positions
/// inside the image; k is the offset of the window's channel in y.
template <class Part>
void spread(const window_grid& g, float* dx, Part part) {
  const bool tiles = tiles_image(g);
  if (!tiles) std::fill_n(dx, g.batch * g.image_size(), 0.0F);
  for_each_window(g, [&](const placed_window& w) {
    const std::size_t count = w.positions();
    w.for_each_position(g, [&](std::int32_t position, std::size_t offset) {
      float* to = dx + offset;
      if (tiles) {
#pragma omp simd
        for (std::size_t c = 0; c < g.channels; ++c) to[c] = part(w.result + c, position, count);
      } else {
#pragma omp simd
        for (std::size_t c = 0; c < g.channels; ++c) to[c] += part(w.result + c, position, count);
      }
    });
  });
}

} // namespace

void max_pool(const stream& s, const window_grid& g, const float* x, float* y, std::int32_t* chosen) {
  if (on_gpu<max_pool>(s, g, x, y, chosen)) return;
  for_each_window(g, [&](const placed_window& w) {
    float* best = y + w.result;
    std::int32_t* at = chosen + w.result;
    bool first = true;
    w.for_each_position(g, [&](std::int32_t position, std::size_t offset) {
      const float* values = x + offset;
      if (std::exchange(first, false)) {
        std::copy_n(values, g.channels, best);
        std::fill_n(at, g.channels, position);
        return;
      }
#pragma omp simd
      for (std::size_t c = 0; c < g.channels; ++c) {
        const bool better = !(values[c] <= best[c]) & (best[c] == best[c]); // a NaN is chosen and kept
        best[c] = better ? values[c] : best[c];
        at[c] = better ? position : at[c];
      }
    });
  });
}

void max_pool_gradient(const stream& s, const window_grid& g, const float* dy, const std::int32_t* chosen,
                       float* dx) {
  if (on_gpu<max_pool_gradient>(s, g, dy, chosen, dx)) return;
  spread(g, dx, [=](std::size_t k, std::int32_t position, std::size_t) {
    return chosen[k] == position ? dy[k] : 0.0F;
  });
}

void average_pool(const stream& s, const window_grid& g, const float* x, float* y) {
  if (on_gpu<average_pool>(s, g, x, y)) return;
  for_each_window(g, [&](const placed_window& w) {
    float* mean = y + w.result;
    std::fill_n(mean, g.channels, 0.0F);
    w.for_each_position(g, [&](std::int32_t, std::size_t offset) {
      const float* values = x + offset;
#pragma omp simd
      for (std::size_t c = 0; c < g.channels; ++c) mean[c] += values[c];
    });
    const auto count = static_cast<float>(w.positions());
#pragma omp simd
    for (std::size_t c = 0; c < g.channels; ++c) mean[c] /= count;
  });
}

void average_pool_gradient(const stream& s, const window_grid& g, const float* dy, float* dx) {
  if (on_gpu<average_pool_gradient>(s, g, dy, dx)) return;
  spread(g, dx,
         [=](std::size_t k, std::int32_t, std::size_t count) { return dy[k] / static_cast<float>(count); });
}

} // namespace mailgrad
