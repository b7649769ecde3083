#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"
#include "../../support/window_shapes.hpp"

#include <mailgrad/kernels/pooling.hpp>

#include <algorithm>
#include <limits>
#include <vector>

namespace mailgrad {
namespace {

using testing::drawn_integers;
using testing::one_shifted_of;
using testing::pooled_windows;
using testing::shifted_array;

/// Few different numbers, so that many are equal.
std::vector<float> few_values(std::size_t n, std::uint64_t seed) {
  const auto drawn = drawn_integers(n, 8, seed);
  std::vector<float> values(drawn.begin(), drawn.end());
  for (float& value : values) value -= 4.3F;
  return values;
}

/// How many images a kernel computes: all, or one at a time, as where several do not fit into 32 bits.
enum class images : std::uint8_t { all, one_by_one };

/// Windows, how far the arrays are shifted, and how many images are computed at a time.
class GpuPooling : public testing::gpu_test,
                   public ::testing::WithParamInterface<std::tuple<pooled_windows, std::size_t, images>> {
protected:
  stream gpu_of_case() {
    if (std::get<2>(GetParam()) == images::all) return gpu();
    return gpu_with_few_in_32_bits(std::max(g.image_size(), g.windows() * g.channels));
  }

  window_grid g = std::get<0>(GetParam()).grid();
  std::size_t shift = std::get<1>(GetParam());
  std::size_t x_size = g.batch * g.image_size(), y_size = g.batch * g.windows() * g.channels;
  std::vector<float> x = few_values(x_size, 1), dy = few_values(y_size, 2);
};

TEST_P(GpuPooling, OfTheLargestHasTheBitsOfTheHost) {
  if (x_size > 2) x[2] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> y(y_size);
  std::vector<std::int32_t> chosen(y_size);
  max_pool(host_stream{}, g, x.data(), y.data(), chosen.data());
  const shifted_array<float> on_x(queue(), x, shift), on_y(queue(), y_size, shift);
  const auto on_chosen = unwritten<std::int32_t>(y_size);
  max_pool(gpu_of_case(), g, on_x.data(), on_y.data(), on_chosen.data());
  const auto found = on_y.read();
  for (std::size_t i = 0; i < y_size; ++i)
    ASSERT_TRUE(found[i] == y[i] || (std::isnan(y[i]) && std::isnan(found[i]))) << i;
  EXPECT_EQ(on_chosen.read(), chosen);
}

TEST_P(GpuPooling, OfTheLargestHasTheGradientOfTheHost) {
  std::vector<float> y(y_size), dx(x_size);
  std::vector<std::int32_t> chosen(y_size);
  max_pool(host_stream{}, g, x.data(), y.data(), chosen.data());
  max_pool_gradient(host_stream{}, g, dy.data(), chosen.data(), dx.data());
  const shifted_array<float> on_dy(queue(), dy, shift), on_dx(queue(), x_size, shift);
  const auto on_chosen = array(chosen);
  max_pool_gradient(gpu_of_case(), g, on_dy.data(), on_chosen.data(), on_dx.data());
  EXPECT_EQ(on_dx.read(), dx);
}

TEST_P(GpuPooling, OfMeansHasTheBitsOfTheHost) {
  std::vector<float> y(y_size);
  average_pool(host_stream{}, g, x.data(), y.data());
  const shifted_array<float> on_x(queue(), x, shift), on_y(queue(), y_size, shift);
  average_pool(gpu_of_case(), g, on_x.data(), on_y.data());
  EXPECT_EQ(on_y.read(), y);
}

TEST_P(GpuPooling, OfMeansHasTheGradientOfTheHost) {
  std::vector<float> dx(x_size);
  average_pool_gradient(host_stream{}, g, dy.data(), dx.data());
  const shifted_array<float> on_dy(queue(), dy, shift), on_dx(queue(), x_size, shift);
  average_pool_gradient(gpu_of_case(), g, on_dy.data(), on_dx.data());
  EXPECT_EQ(on_dx.read(), dx);
}

using GpuPoolingArrays = testing::gpu_test;

TEST_F(GpuPoolingArrays, MayEachStartAtAnyFloat) {
  const window_grid g = pooled_windows{2, 6, 6, 8, 2, 2, 2, 2}.grid();
  const std::size_t x_size = g.batch * g.image_size(), y_size = g.batch * g.windows() * g.channels;
  const std::vector<float> x = few_values(x_size, 1), dy = few_values(y_size, 2);
  std::vector<float> y(y_size), dx(x_size), mean(y_size), mean_dx(x_size);
  std::vector<std::int32_t> chosen(y_size);
  max_pool(host_stream{}, g, x.data(), y.data(), chosen.data());
  max_pool_gradient(host_stream{}, g, dy.data(), chosen.data(), dx.data());
  average_pool(host_stream{}, g, x.data(), mean.data());
  average_pool_gradient(host_stream{}, g, dy.data(), mean_dx.data());
  for (const auto& shifts : one_shifted_of(3)) {
    SCOPED_TRACE(::testing::PrintToString(shifts));
    const shifted_array<float> on_x(queue(), x, shifts[0]), on_y(queue(), y_size, shifts[1]);
    const shifted_array<std::int32_t> on_chosen(queue(), y_size, shifts[2]);
    max_pool(gpu(), g, on_x.data(), on_y.data(), on_chosen.data());
    EXPECT_EQ(on_y.read(), y);
    EXPECT_EQ(on_chosen.read(), chosen);
    average_pool(gpu(), g, on_x.data(), on_y.data());
    EXPECT_EQ(on_y.read(), mean);
    const shifted_array<float> on_dy(queue(), dy, shifts[0]), on_dx(queue(), x_size, shifts[1]);
    max_pool_gradient(gpu(), g, on_dy.data(), on_chosen.data(), on_dx.data());
    EXPECT_EQ(on_dx.read(), dx);
    average_pool_gradient(gpu(), g, on_dy.data(), on_dx.data());
    EXPECT_EQ(on_dx.read(), mean_dx);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GpuPooling,
    ::testing::Combine(::testing::Values(pooled_windows{1, 1, 1, 1, 1, 1, 1, 1},
                                         pooled_windows{3, 8, 6, 32, 2, 2, 2, 2},
                                         pooled_windows{2, 7, 5, 3, 2, 2, 2, 2},    // a row left over
                                         pooled_windows{2, 7, 9, 4, 3, 3, 2, 2, 1}, // overlapping
                                         pooled_windows{1, 6, 6, 5, 3, 2, 1, 1},
                                         pooled_windows{1, 9, 9, 8, 2, 2, 4, 3}, // gaps
                                         pooled_windows{3, 5, 5, 8, 5, 5, 1, 1}, // the whole image
                                         pooled_windows{0, 4, 4, 4, 2, 2, 2, 2}),
                       ::testing::Values(0U, 1U), ::testing::Values(images::all, images::one_by_one)));
INSTANTIATE_TEST_SUITE_P(ManyWindows, GpuPooling,
                         ::testing::Values(std::tuple(pooled_windows{5, 130, 140, 9, 2, 2, 2, 2}, 1U,
                                                      images::all)));

} // namespace
} // namespace mailgrad
