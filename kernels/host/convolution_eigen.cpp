#include <mailgrad/kernels/host/dense_convolution.hpp>

#include <mailgrad/kernels/no_cuda.hpp>

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

/// A convolution as a matrix product with the unfolded image: a row for each window, zero where it hangs over
/// the border.
class eigen_plan : public convolution_plan {
public:
  explicit eigen_plan(const convolution_shape& c) : shape_(c) {}

  std::size_t scratch_bytes() const noexcept override { return unfolded_size() * sizeof(float); }

protected:
  const window_grid& grid() const { return shape_.windows; }
  std::size_t unfolded_size() const noexcept { return grid().windows() * grid().window_size(); }
  std::size_t result_size() const { return grid().windows() * shape_.out_channels; }

  matrix_in weights(const float* w) const {
    return {w, index(grid().window_size()), index(shape_.out_channels)};
  }
  matrix_in result(const float* y, std::size_t image) const {
    return {y + image * result_size(), index(grid().windows()), index(shape_.out_channels)};
  }
  matrix_out unfolded(float* memory) const {
    return {memory, index(grid().windows()), index(grid().window_size())};
  }
  void unfold(const float* x, std::size_t image, float* memory) const {
    const float* from = x + image * grid().image_size();
    std::fill_n(memory, unfolded_size(), 0.0F);
    for_each_run(grid(), [&](std::size_t in_image, std::size_t in_windows, std::size_t count) {
      std::copy_n(from + in_image, count, memory + in_windows);
    });
  }

  convolution_shape shape_;
};

class eigen_forward : public eigen_plan {
public:
  using eigen_plan::eigen_plan;
  void run(const stream& s, const float* x, const float* w, float* y, void* scratch) override {
    require_host(s, "convolution");
    auto* memory = static_cast<float*>(scratch);
    for (std::size_t image = 0; image < grid().batch; ++image) {
      unfold(x, image, memory);
      matrix_out out(y + image * result_size(), index(grid().windows()), index(shape_.out_channels));
      out.noalias() = unfolded(memory) * weights(w);
    }
  }
};

class eigen_data_gradient : public eigen_plan {
public:
  using eigen_plan::eigen_plan;
  void run(const stream& s, const float* dy, const float* w, float* dx, void* scratch) override {
    require_host(s, "convolution");
    auto* memory = static_cast<float*>(scratch);
    std::fill_n(dx, shape_.x_size(), 0.0F);
    for (std::size_t image = 0; image < grid().batch; ++image) {
      unfolded(memory).noalias() = result(dy, image) * weights(w).transpose();
      float* to = dx + image * grid().image_size();
      for_each_run(grid(), [&](std::size_t in_image, std::size_t in_windows, std::size_t count) {
#pragma omp simd
        for (std::size_t k = 0; k < count; ++k) to[in_image + k] += memory[in_windows + k];
      });
    }
  }
};

class eigen_weight_gradient : public eigen_plan {
public:
  using eigen_plan::eigen_plan;
  void run(const stream& s, const float* x, const float* dy, float* dw, void* scratch) override {
    require_host(s, "convolution");
    auto* memory = static_cast<float*>(scratch);
    matrix_out sum(dw, index(grid().window_size()), index(shape_.out_channels));
    sum.setZero();
    for (std::size_t image = 0; image < grid().batch; ++image) {
      unfold(x, image, memory);
      sum.noalias() += unfolded(memory).transpose() * result(dy, image);
    }
  }
};

} // namespace

std::unique_ptr<convolution_plan> plan_dense_convolution(const convolution_shape& c) {
  return std::make_unique<eigen_forward>(c);
}
std::unique_ptr<convolution_plan> plan_dense_data_gradient(const convolution_shape& c) {
  return std::make_unique<eigen_data_gradient>(c);
}
std::unique_ptr<convolution_plan> plan_dense_weight_gradient(const convolution_shape& c) {
  return std::make_unique<eigen_weight_gradient>(c);
}

} // namespace mailgrad
