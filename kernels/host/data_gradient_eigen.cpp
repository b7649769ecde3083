#include <mailgrad/kernels/host/convolution.hpp>

#include <mailgrad/tensor/stream.hpp>

#include <Eigen/Core>
#include <algorithm>

namespace mailgrad {

namespace {

using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using matrix_in = Eigen::Map<const matrix>;
using matrix_out = Eigen::Map<matrix>;

Eigen::Index index(std::size_t n) { return static_cast<Eigen::Index>(n); }

/// Calls visit(offset in the image, offset in the unfolded image, count) for each run of values that lies
/// inside the image and is contiguous in both: the columns of one row of one window.
template <class Visit>
void for_each_run(const window_grid& g, Visit visit) {
  for (std::size_t i = 0; i < g.out_height; ++i) {
    const inside rows(i, g.stride_rows, g.pad_top, g.rows, g.height);
    for (std::size_t j = 0; j < g.out_width; ++j) {
      const inside columns(j, g.stride_columns, g.pad_left, g.columns, g.width);
      if (columns.first >= columns.last) continue;
      for (std::size_t r = rows.first; r < rows.last; ++r) {
        const std::size_t row = i * g.stride_rows + r - g.pad_top;
        const std::size_t column = j * g.stride_columns + columns.first - g.pad_left;
        visit((row * g.width + column) * g.channels,
              (((i * g.out_width + j) * g.rows + r) * g.columns + columns.first) * g.channels,
              (columns.last - columns.first) * g.channels);
      }
    }
  }
}

/// Computes dx. The product of dy with the weights has a gradient for each value of each window; those of the
/// same pixel are added up.
class eigen_data_gradient : public convolution_plan {
public:
  explicit eigen_data_gradient(const convolution_shape& c) : shape_(c) {}

  std::size_t scratch_bytes() const noexcept override {
    return grid().windows() * grid().window_size() * sizeof(float);
  }

  void run(const stream& s, const float* dy, const float* w, float* dx, void* scratch) override {
    require_host(s, "convolution");
    auto* memory = static_cast<float*>(scratch);
    matrix_out unfolded(memory, index(grid().windows()), index(grid().window_size()));
    const matrix_in weights(w, index(grid().window_size()), index(shape_.out_channels));
    std::fill_n(dx, shape_.x_size(), 0.0F);
    for (std::size_t image = 0; image < grid().batch; ++image) {
      const matrix_in result(dy + image * grid().windows() * shape_.out_channels, index(grid().windows()),
                             index(shape_.out_channels));
      unfolded.noalias() = result * weights.transpose();
      float* to = dx + image * grid().image_size();
      for_each_run(grid(), [&](std::size_t in_image, std::size_t in_windows, std::size_t count) {
#pragma omp simd
        for (std::size_t k = 0; k < count; ++k) to[in_image + k] += memory[in_windows + k];
      });
    }
  }

private:
  const window_grid& grid() const { return shape_.windows; }

  convolution_shape shape_;
};

} // namespace

std::unique_ptr<convolution_plan> plan_dense_data_gradient(const convolution_shape& c) {
  return std::make_unique<eigen_data_gradient>(c);
}

} // namespace mailgrad
