#include <mailgrad/kernels/host/convolution.hpp>
#include <mailgrad/kernels/host/gemm_tile.hpp>

namespace mailgrad {
namespace {

/// The most floats along the depth of a product, unless one row of a window has more. The weights of such a
/// depth, for one tile's columns, stay in the L2 cache while the windows of an image are read.
constexpr std::size_t max_depth_of_rows = 800;

/// An image with its padding. An image without padding is read where it lies.
class padded_image {
public:
  explicit padded_image(const window_grid& g)
      : g_(g), in_place_(g.pad_top + g.pad_left + g.pad_bottom + g.pad_right == 0),
        height_(in_place_ ? g.height : (g.out_height - 1) * g.stride_rows + g.rows),
        width_(in_place_ ? g.width : (g.out_width - 1) * g.stride_columns + g.columns) {}

  /// The number of floats that padded() needs, which must be zero before its first call.
  std::size_t memory_size() const noexcept { return in_place_ ? 0 : height_ * width_ * g_.channels; }
  std::size_t row_size() const noexcept { return width_ * g_.channels; }

  /// The offset of a window. Windows are counted row by row.
  std::size_t window_offset(std::size_t window) const noexcept {
    return (window / g_.out_width * g_.stride_rows * width_ + window % g_.out_width * g_.stride_columns) *
           g_.channels;
  }

  const float* padded(const float* image, std::span<float> memory) const {
    if (in_place_) return image;
    const std::size_t rows = std::min(g_.height, height_ - std::min(height_, g_.pad_top));
    const std::size_t columns = std::min(g_.width, width_ - std::min(width_, g_.pad_left));
    for (std::size_t i = 0; i < rows; ++i)
      std::copy_n(image + i * g_.width * g_.channels, columns * g_.channels,
                  &memory[((i + g_.pad_top) * width_ + g_.pad_left) * g_.channels]);
    return memory.data();
  }

private:
  window_grid g_;
  bool in_place_;
  std::size_t height_, width_;
};

/// A matrix that is cut into panels as wide as a tile. The last panel is filled up with zeros.
class matrix_in_panels {
public:
  matrix_in_panels(std::size_t rows, std::size_t columns) : rows_(rows), columns_(columns) {}

  std::size_t size() const noexcept {
    return (columns_ + tile::columns - 1) / tile::columns * rows_ * tile::columns;
  }
  void pack(const float* matrix, std::span<float> memory) const {
    for (std::size_t column = 0; column < columns_; column += tile::columns) {
      const std::size_t count = std::min(tile::columns, columns_ - column);
      float* to = &memory[column * rows_];
      for (std::size_t r = 0; r < rows_; ++r, to += tile::columns) {
        std::copy_n(matrix + r * columns_ + column, count, to);
        std::fill(to + count, to + tile::columns, 0.0F);
      }
    }
  }
  /// Calls visit(first column, number of columns, panel).
  template <class Visit>
  void for_each(std::span<const float> memory, Visit visit) const {
    for (std::size_t column = 0; column < columns_; column += tile::columns)
      visit(column, std::min(tile::columns, columns_ - column), &memory[column * rows_]);
  }

private:
  std::size_t rows_, columns_;
};

class direct_plan : public convolution_plan {
public:
  direct_plan(const convolution_shape& c, const matrix_in_panels& right)
      : shape_(c), image_(c.windows), right_(right) {}

  std::size_t scratch_bytes() const noexcept override {
    scratch_parts parts;
    take(parts);
    return parts.used();
  }

protected:
  struct memory {
    std::span<float> image, right, tile;
  };
  memory take(scratch_parts& parts) const {
    return {parts.take<float>(image_.memory_size()), parts.take<float>(right_.size()),
            parts.take<float>(tile::rows * tile::columns)};
  }
  memory prepare(void* scratch) const {
    scratch_parts parts(static_cast<std::byte*>(scratch));
    const memory m = take(parts);
    std::ranges::fill(m.image, 0.0F);
    return m;
  }

  const window_grid& grid() const { return shape_.windows; }
  /// The number of floats in one row of a window. They are contiguous.
  std::size_t run_size() const { return grid().columns * grid().channels; }
  std::size_t y_image_size() const { return grid().windows() * shape_.out_channels; }

  convolution_shape shape_;
  padded_image image_;
  matrix_in_panels right_; ///< the weights, or dy of one image
};

/// Computes y, the product of the windows with the weights. The windows are read where they lie in the padded
/// image.
class direct_convolution : public direct_plan {
public:
  explicit direct_convolution(const convolution_shape& c)
      : direct_plan(c, matrix_in_panels(c.windows.window_size(), c.out_channels)) {}

  void run(const stream& s, const float* x, const float* w, float* y, void* scratch) override {
    require_host(s, "convolution");
    const memory m = prepare(scratch);
    right_.pack(w, m.right);
    for (std::size_t i = 0; i < grid().batch; ++i) {
      const float* const image = image_.padded(x + i * grid().image_size(), m.image);
      float* const out = y + i * y_image_size();
      right_.for_each(m.right, [&](std::size_t column, std::size_t count, const float* panel) {
        for (std::size_t row = 0; row < grid().rows; row += rows_at_once_)
          add_rows(image, row, panel, {out + column, shape_.out_channels, 0, count}, m.tile.data());
      });
    }
  }

private:
  /// Adds the contribution of `rows_at_once_` rows of each window, from `first` on, to some channels of y.
  void add_rows(const float* image, std::size_t first, const float* panel, tile::result_part out,
                float* spare) const {
    const std::size_t rows = std::min(rows_at_once_, grid().rows - first);
    const tile::right_part right{panel + first * run_size() * tile::columns, tile::columns};
    float* const y = out.values;
    const float* const from = image + first * image_.row_size();
    tile::for_each_height(0, grid().windows(), [&](std::size_t begin, std::size_t end) {
      tile::scattered_left_part windows{{}, rows, image_.row_size()};
      for (std::size_t k = begin; k < end; ++k) windows.values[k - begin] = from + image_.window_offset(k);
      out.values = y + begin * out.step;
      out.row_count = end - begin;
      tile::multiply_part(windows, right, run_size(), out,
                          first == 0 ? tile::into::overwrite : tile::into::add, spare);
    });
  }

  std::size_t rows_at_once_ = std::max<std::size_t>(1, max_depth_of_rows / run_size());
};

/// Computes dw. For each row of a window, the values of this row in all windows form a matrix, whose
/// transpose is multiplied with dy.
class direct_weight_gradient : public direct_plan {
public:
  explicit direct_weight_gradient(const convolution_shape& c)
      : direct_plan(c, matrix_in_panels(c.windows.windows(), c.out_channels)) {}

  void run(const stream& s, const float* x, const float* dy, float* dw, void* scratch) override {
    require_host(s, "convolution");
    const memory m = prepare(scratch);
    for (std::size_t i = 0; i < grid().batch; ++i) {
      const float* const image = image_.padded(x + i * grid().image_size(), m.image);
      right_.pack(dy + i * y_image_size(), m.right);
      const auto how = i == 0 ? tile::into::overwrite : tile::into::add;
      right_.for_each(m.right, [&](std::size_t column, std::size_t count, const float* panel) {
        for (std::size_t row = 0; row < grid().rows; ++row)
          add_image(image + row * image_.row_size(), panel,
                    {dw + row * run_size() * shape_.out_channels + column, shape_.out_channels, 0, count},
                    how, m.tile.data());
      });
    }
  }

private:
  void add_image(const float* image, const float* panel, tile::result_part out, tile::into how,
                 float* spare) const {
    float* const dw = out.values;
    tile::for_each_height(0, run_size(), [&](std::size_t begin, std::size_t end) {
      out.values = dw + begin * out.step;
      out.row_count = end - begin;
      const tile::left_runs values{image + begin, grid().stride_columns * grid().channels, grid().out_height,
                                   grid().stride_rows * image_.row_size()};
      tile::multiply_part(values, tile::right_part{panel, tile::columns}, grid().out_width, out, how, spare);
    });
  }
};

} // namespace

std::unique_ptr<convolution_plan> plan_dense_convolution(const convolution_shape& c) {
  return std::make_unique<direct_convolution>(c);
}

std::unique_ptr<convolution_plan> plan_dense_weight_gradient(const convolution_shape& c) {
  return std::make_unique<direct_weight_gradient>(c);
}

} // namespace mailgrad
