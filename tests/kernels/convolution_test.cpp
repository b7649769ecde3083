#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>
#include <mailgrad/tests/support/special_floats.hpp>
#include <mailgrad/tests/support/window_shapes.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace mailgrad {
namespace {

using floats = std::vector<float>;
using testing::convolved_windows;

/// Multiplies every x, w, y that meet in a convolution: visit(offset in x, offset in w, offset in y).
template <class Visit>
void for_each_product(const convolution_shape& c, Visit visit) {
  const window_grid& g = c.windows;
  for (std::size_t image = 0; image < g.batch; ++image)
    for (std::size_t i = 0; i < g.out_height; ++i)
      for (std::size_t j = 0; j < g.out_width; ++j)
        for (std::size_t r = 0; r < g.rows; ++r)
          for (std::size_t k = 0; k < g.columns; ++k) {
            const std::size_t row = i * g.stride_rows + r, column = j * g.stride_columns + k;
            if (row < g.pad_top || row - g.pad_top >= g.height) continue;
            if (column < g.pad_left || column - g.pad_left >= g.width) continue;
            const std::size_t pixel = (image * g.height + row - g.pad_top) * g.width + column - g.pad_left;
            for (std::size_t in = 0; in < g.channels; ++in)
              for (std::size_t out = 0; out < c.out_channels; ++out)
                visit(pixel * g.channels + in, ((r * g.columns + k) * g.channels + in) * c.out_channels + out,
                      ((image * g.out_height + i) * g.out_width + j) * c.out_channels + out);
          }
}

floats random_values(std::size_t n, std::uint64_t seed, double part_filled = 1) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<double> uniform;
  floats v(n);
  for (float& value : v) value = uniform(rng) < part_filled ? normal(rng) : 0.0F;
  return v;
}

floats run(const std::unique_ptr<convolution_plan>& plan, const floats& left, const floats& right,
           std::size_t result_size) {
  block scratch(plan->scratch_bytes());
  std::ranges::fill(scratch.as<std::byte>(), std::byte{0xff}); // NaN: nothing may rely on what it holds
  floats result(result_size, testing::nan);
  plan->run(host_stream{}, left.data(), right.data(), result.data(), scratch.data());
  return result;
}

void expect_near(const floats& found, const floats& expected, double terms) {
  ASSERT_EQ(found.size(), expected.size());
  const float tolerance = 2e-6F * static_cast<float>(std::sqrt(terms) + 1);
  for (std::size_t k = 0; k < found.size(); ++k)
    ASSERT_NEAR(found[k], expected[k], tolerance * (1 + std::abs(expected[k]))) << "at " << k;
}

/// Part of dy that is not zero: the gradients take different ways for much and for little.
class Convolution : public testing::TestWithParam<std::tuple<convolved_windows, double>> {
protected:
  convolution_shape shape = std::get<0>(GetParam()).shape();
  floats x = random_values(shape.x_size(), 1), w = random_values(shape.w_size(), 2);
  floats dy = random_values(shape.y_size(), 3, std::get<1>(GetParam()));
};

TEST_P(Convolution, EqualsThePlainLoop) {
  floats expected(shape.y_size());
  for_each_product(shape, [&](auto a, auto b, auto c) { expected[c] += x[a] * w[b]; });
  expect_near(run(plan_convolution(shape), x, w, shape.y_size()), expected,
              static_cast<double>(shape.windows.window_size()));
}

TEST_P(Convolution, DataGradientEqualsThePlainLoop) {
  floats expected(shape.x_size());
  for_each_product(shape, [&](auto a, auto b, auto c) { expected[a] += dy[c] * w[b]; });
  expect_near(run(plan_convolution_data_gradient(shape), dy, w, shape.x_size()), expected,
              static_cast<double>(shape.windows.window_size() * shape.out_channels));
}

TEST_P(Convolution, WeightGradientEqualsThePlainLoop) {
  floats expected(shape.w_size());
  for_each_product(shape, [&](auto a, auto b, auto c) { expected[b] += x[a] * dy[c]; });
  expect_near(run(plan_convolution_weight_gradient(shape), x, dy, shape.w_size()), expected,
              static_cast<double>(shape.windows.batch * shape.windows.windows()));
}

TEST_P(Convolution, GivesTheSameBitsTwice) {
  const auto data = plan_convolution_data_gradient(shape);
  const auto weights = plan_convolution_weight_gradient(shape);
  EXPECT_EQ(run(data, dy, w, shape.x_size()), run(data, dy, w, shape.x_size()));
  EXPECT_EQ(run(weights, x, dy, shape.w_size()), run(weights, x, dy, shape.w_size()));
}

const auto shapes = testing::Values(
    convolved_windows{1, 1, 1, 1, 1, 1, 1},                     // the smallest
    convolved_windows{2, 9, 7, 3, 1, 1, 5},                     // 1x1
    convolved_windows{3, 9, 7, 16, 1, 1, 5},                    // 1x1, many channels
    convolved_windows{2, 7, 5, 3, 3, 3, 4, 1, 1, 1, 1, 1, 1},   // 3x3, same
    convolved_windows{2, 8, 8, 1, 5, 5, 32, 1, 1, 2, 2, 2, 2},  // first layer
    convolved_windows{2, 7, 7, 32, 5, 5, 64, 1, 1, 2, 2, 2, 2}, // second layer
    convolved_windows{2, 7, 9, 8, 3, 3, 8, 2, 2, 0, 1, 1, 0},   // stride, uneven padding
    convolved_windows{2, 8, 7, 12, 3, 3, 6, 2, 3},              // columns left over
    convolved_windows{1, 9, 9, 8, 2, 3, 7, 3, 4},               // gaps between windows
    convolved_windows{1, 6, 17, 40, 1, 7, 3, 1, 1, 0, 3, 0, 3}, // wide windows
    convolved_windows{1, 6, 17, 9, 2, 13, 3, 1, 1, 1, 6, 0, 6}, // wider than the registers
    convolved_windows{1, 3, 3, 9, 3, 3, 2, 1, 1, 2, 2, 2, 2},   // full padding
    convolved_windows{1, 6, 6, 256, 3, 3, 5, 1, 1, 1, 1, 1, 1}, // deeper than a tile goes at once
    convolved_windows{1, 7, 6, 64, 5, 5, 17, 2, 1, 2, 2, 2, 2}, // the same, the last part shallower
    convolved_windows{2, 4, 4, 24, 4, 4, 10});                  // one window
INSTANTIATE_TEST_SUITE_P(Shapes, Convolution, testing::Combine(shapes, testing::Values(1.0, 0.5, 0.1, 0.0)));

TEST(ConvolutionEdges, ABatchOfNoneGivesAWeightGradientOfZero) {
  const convolution_shape shape = convolved_windows{0, 4, 4, 8, 3, 3, 2}.shape();
  EXPECT_EQ(run(plan_convolution_weight_gradient(shape), {}, {}, shape.w_size()), floats(shape.w_size()));
}

TEST(ConvolutionEdges, NoInputChannelsGiveZero) {
  const convolution_shape shape = convolved_windows{1, 4, 4, 0, 3, 3, 2}.shape();
  EXPECT_EQ(run(plan_convolution(shape), {}, {}, shape.y_size()), floats(shape.y_size()));
}

TEST(ConvolutionEdges, AGradientOfInfinityReachesOnlyItsWindow) {
  const convolution_shape shape = convolved_windows{1, 4, 8, 8, 1, 3, 1}.shape();
  floats dy(shape.y_size());
  dy[0] = testing::infinity;
  const floats w = random_values(shape.w_size(), 4);
  const floats dx = run(plan_convolution_data_gradient(shape), dy, w, shape.x_size());
  for (std::size_t k = 0; k < dx.size(); ++k) EXPECT_EQ(std::isfinite(dx[k]), k >= 3 * 8) << "at " << k;
}

TEST(ConvolutionEdges, RefusesAStreamOfAGpuBeforeItReadsAnything) {
  MAILGRAD_SKIP_WITH_CUDA();
  const convolution_shape shape = convolved_windows{1, 4, 4, 32, 3, 3, 2}.shape();
  for (const auto plan_for :
       {plan_convolution, plan_convolution_data_gradient, plan_convolution_weight_gradient})
    EXPECT_THROW(plan_for(shape, device_kind::cpu)->run(cuda_stream{}, nullptr, nullptr, nullptr, nullptr),
                 device_error);
}

} // namespace
} // namespace mailgrad
