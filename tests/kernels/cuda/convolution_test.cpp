#include "../../support/gpu_test.hpp"
#include "../../support/window_shapes.hpp"

#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/cuda/indices.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/error.hpp>

namespace mailgrad {
namespace {

using testing::Combine, testing::Values, testing::convolved_windows, testing::expect_close,
    testing::normal_values;

using planner = std::unique_ptr<convolution_plan> (*)(const convolution_shape&, device_kind);

/// Arrays that start where packs may be read, or one float behind.
class GpuConvolution : public testing::gpu_test,
                       public ::testing::WithParamInterface<std::tuple<convolved_windows, std::size_t>> {
protected:
  /// The same operands also have to give the same bits.
  void expect_as_on_host(planner plan_for, const std::vector<float>& left, const std::vector<float>& right,
                         std::size_t size, std::size_t terms) {
    const auto on_gpu = plan_for(shape, device_kind::cuda), on_host = plan_for(shape, device_kind::cpu);
    EXPECT_EQ(on_gpu->scratch_bytes(), 0U) << "a GPU's kernels have the scratch memory of their queue";
    block scratch(on_host->scratch_bytes());
    const auto a = given(left, shift), b = given(right, shift);
    auto y = wanted(size, shift), again = wanted(size, shift);
    on_host->run(host_stream{}, left.data(), right.data(), y.here.data(), scratch.data());
    for (const auto* const result : {&y, &again})
      on_gpu->run(gpu(), a.there.data(), b.there.data(), result->there.data(), nullptr);
    // The host adds very many windows one by one, which rounds more than the GPU's parts do.
    const auto n = static_cast<float>(terms);
    expect_close(y, std::sqrt(n) + n / 200);
    EXPECT_EQ(again.there.read(), y.there.read());
  }

  std::size_t shift = std::get<1>(GetParam());
  convolution_shape shape = std::get<0>(GetParam()).shape();
  std::vector<float> x = normal_values(shape.x_size(), 1), w = normal_values(shape.w_size(), 2);
  std::vector<float> dy = normal_values(shape.y_size(), 3);
};

TEST_P(GpuConvolution, EqualsThatOfTheHost) {
  expect_as_on_host(plan_convolution, x, w, shape.y_size(), shape.windows.window_size());
}

TEST_P(GpuConvolution, HasTheDataGradientOfTheHost) {
  expect_as_on_host(plan_convolution_data_gradient, dy, w, shape.x_size(),
                    shape.windows.rows * shape.windows.columns * shape.out_channels);
}

TEST_P(GpuConvolution, HasTheWeightGradientOfTheHost) {
  expect_as_on_host(plan_convolution_weight_gradient, x, dy, shape.w_size(),
                    shape.windows.batch * shape.windows.windows());
}

const auto shapes = Values(convolved_windows{1, 1, 1, 1, 1, 1, 1}, // the smallest
                           convolved_windows{3, 9, 7, 3, 1, 1, 5},
                           convolved_windows{2, 28, 28, 1, 5, 5, 32, 1, 1, 2, 2, 2, 2},  // LeNet's first
                           convolved_windows{2, 14, 14, 32, 5, 5, 64, 1, 1, 2, 2, 2, 2}, // and second
                           convolved_windows{3, 12, 12, 6, 5, 5, 16},                    // LeNet-5
                           convolved_windows{2, 7, 9, 8, 3, 3, 8, 2, 2, 0, 1, 1, 0},     // uneven padding
                           convolved_windows{2, 8, 7, 12, 3, 3, 6, 2, 3},
                           convolved_windows{1, 9, 9, 8, 2, 3, 7, 3, 4},             // gaps between windows
                           convolved_windows{1, 3, 3, 9, 3, 3, 2, 1, 1, 2, 2, 2, 2}, // full padding
                           convolved_windows{1, 4, 5, 100, 3, 3, 130, 1, 1, 1, 1, 1, 1}, // many channels
                           convolved_windows{2, 4, 4, 24, 4, 4, 10},                     // one window
                           convolved_windows{0, 4, 4, 8, 3, 3, 2});
INSTANTIATE_TEST_SUITE_P(Shapes, GpuConvolution, Combine(shapes, Values(0U, 1U)));

// So many windows that they are computed in large tiles.
INSTANTIATE_TEST_SUITE_P(ManyWindows, GpuConvolution,
                         Values(std::tuple(convolved_windows{1, 330, 330, 20, 1, 1, 20}, 0U),
                                std::tuple(convolved_windows{1, 184, 185, 36, 1, 1, 36}, 0U),
                                std::tuple(convolved_windows{1, 184, 185, 33, 1, 1, 35}, 1U)));

TEST(WindowNumbers, RefuseWhatDoesNotFitInto31Bits) {
  const convolution_shape fits = convolved_windows{2, 28, 28, 1, 5, 5, 32}.shape();
  EXPECT_EQ(cuda::numbers_of(fits).windows, 2U * 24 * 24);
  convolution_shape many_windows = fits, large_image = fits, many_channels = fits;
  many_windows.windows.batch = std::size_t{1} << 22;
  large_image.windows.channels = std::size_t{1} << 23;
  many_channels.out_channels = ~std::size_t{0};
  for (const convolution_shape& shape : {many_windows, large_image, many_channels})
    EXPECT_THROW(cuda::numbers_of(shape), shape_error);
}

TEST(Divider, DividesAllThatFitsInto31Bits) {
  constexpr std::uint32_t most = (std::uint32_t{1} << 31) - 1;
  for (const std::uint32_t d : {1U, 2U, 3U, 5U, 7U, 25U, 196U, 641U, 65535U, 65537U, most - 1, most}) {
    const cuda::divider<std::uint32_t> by(d);
    for (std::uint64_t k = 0; k <= most; k += most / 997)
      for (const std::uint64_t n : {k, k / d * d, k / d * d + d - 1})
        if (n <= most) {
          auto rest = static_cast<std::uint32_t>(n);
          ASSERT_EQ(by.divide(rest), n / d) << n << " by " << d;
          ASSERT_EQ(rest, n % d) << n << " by " << d;
        }
  }
}

} // namespace
} // namespace mailgrad
