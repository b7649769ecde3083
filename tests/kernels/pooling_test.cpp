#include <mailgrad/kernels/pooling.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>
#include <mailgrad/tests/support/special_floats.hpp>
#include <mailgrad/tests/support/window_shapes.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace mailgrad {
namespace {

using floats = std::vector<float>;
using positions = std::vector<std::int32_t>;
using testing::nan;
using testing::pooled_windows;

std::size_t x_size(const window_grid& g) { return g.batch * g.image_size(); }
std::size_t y_size(const window_grid& g) { return g.batch * g.windows() * g.channels; }

/// One value of an image and the window it lies in: visit(offset in x, offset in y, position in the window).
template <class Visit>
void for_each_member(const window_grid& g, Visit visit) {
  for (std::size_t y = 0; y < y_size(g); ++y) {
    const std::size_t channel = y % g.channels, window = y / g.channels % g.windows();
    const std::size_t image = y / g.channels / g.windows();
    for (std::size_t k = 0; k < g.rows * g.columns; ++k) {
      const std::size_t row = window / g.out_width * g.stride_rows + k / g.columns;
      const std::size_t column = window % g.out_width * g.stride_columns + k % g.columns;
      if (row < g.pad_top || row - g.pad_top >= g.height) continue;
      if (column < g.pad_left || column - g.pad_left >= g.width) continue;
      visit(((image * g.height + row - g.pad_top) * g.width + column - g.pad_left) * g.channels + channel, y,
            static_cast<std::int32_t>(k));
    }
  }
}

floats random_values(std::size_t n) {
  std::mt19937_64 rng(7);
  std::uniform_int_distribution<int> few(-4, 4); // so that many are equal
  floats v(n);
  for (float& value : v) value = static_cast<float>(few(rng));
  return v;
}

class Pooling : public testing::TestWithParam<window_grid> {
protected:
  window_grid g = GetParam();
  floats x = random_values(x_size(g)), dy = random_values(y_size(g));
};

TEST_P(Pooling, MaxEqualsThePlainLoop) {
  floats expected(y_size(g), -std::numeric_limits<float>::infinity());
  positions expected_chosen(y_size(g));
  for_each_member(g, [&](auto a, auto b, auto k) {
    if (x[a] <= expected[b]) return;
    expected[b] = x[a];
    expected_chosen[b] = k;
  });
  floats y(y_size(g), nan);
  positions chosen(y_size(g), -1);
  max_pool(host_stream{}, g, x.data(), y.data(), chosen.data());
  EXPECT_EQ(y, expected);
  EXPECT_EQ(chosen, expected_chosen);
}

TEST_P(Pooling, MaxGradientGoesToTheChosen) {
  positions chosen(y_size(g), -1);
  for_each_member(g, [&](auto, auto b, auto k) { // any position inside the image
    if (chosen[b] < 0 || b % 3 == 1) chosen[b] = k;
  });
  floats expected(x_size(g));
  for_each_member(g, [&](auto a, auto b, auto k) { expected[a] += chosen[b] == k ? dy[b] : 0.0F; });
  floats dx(x_size(g), nan);
  max_pool_gradient(host_stream{}, g, dy.data(), chosen.data(), dx.data());
  EXPECT_EQ(dx, expected);
}

TEST_P(Pooling, AverageEqualsThePlainLoop) {
  floats expected(y_size(g)), count(y_size(g));
  for_each_member(g, [&](auto a, auto b, auto) {
    expected[b] += x[a];
    count[b] += 1;
  });
  floats y(y_size(g), nan);
  average_pool(host_stream{}, g, x.data(), y.data());
  for (std::size_t b = 0; b < y.size(); ++b) EXPECT_FLOAT_EQ(y[b], expected[b] / count[b]);
}

TEST_P(Pooling, AverageGradientGoesToAllAlike) {
  floats count(y_size(g));
  for_each_member(g, [&](auto, auto b, auto) { count[b] += 1; });
  floats expected(x_size(g));
  for_each_member(g, [&](auto a, auto b, auto) { expected[a] += dy[b] / count[b]; });
  floats dx(x_size(g), nan);
  average_pool_gradient(host_stream{}, g, dy.data(), dx.data());
  for (std::size_t a = 0; a < dx.size(); ++a) EXPECT_NEAR(dx[a], expected[a], 1e-5F);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Pooling,
    testing::Values(pooled_windows{1, 1, 1, 1, 1, 1, 1, 1}.grid(),
                    pooled_windows{2, 8, 6, 32, 2, 2, 2, 2}.grid(),
                    pooled_windows{2, 7, 5, 3, 2, 2, 2, 2}.grid(),    // a row and a column left over
                    pooled_windows{2, 7, 9, 5, 3, 3, 2, 2, 1}.grid(), // overlapping, padded
                    pooled_windows{1, 6, 6, 4, 3, 2, 1, 1}.grid(),    // overlapping
                    pooled_windows{1, 9, 9, 9, 2, 2, 4, 3}.grid(),    // gaps
                    pooled_windows{3, 5, 5, 8, 5, 5, 1, 1}.grid(),    // the whole image
                    pooled_windows{0, 4, 4, 2, 2, 2, 2, 2}.grid()));  // no images

struct chosen_value {
  float y;
  std::int32_t position;
};
/// The result of the only window of an image of one channel.
chosen_value max_of(const pooled_windows& window, const floats& x) {
  chosen_value found{0, -1};
  max_pool(host_stream{}, window.grid(), x.data(), &found.y, &found.position);
  return found;
}
constexpr pooled_windows two_by_two{1, 2, 2, 1, 2, 2, 2, 2};

TEST(MaxPool, OfEqualValuesChoosesTheFirst) { EXPECT_EQ(max_of(two_by_two, {1, 3, 3, 3}).position, 1); }

TEST(MaxPool, ANanIsTheResultWhereverItStands) {
  for (std::size_t k = 0; k < 4; ++k) {
    floats x{1, 5, 2, 7};
    x[k] = nan;
    const chosen_value found = max_of(two_by_two, x);
    EXPECT_TRUE(std::isnan(found.y)) << k;
    EXPECT_EQ(found.position, static_cast<std::int32_t>(k));
  }
}

TEST(MaxPool, NeverChoosesPadding) {
  const chosen_value found = max_of({1, 1, 1, 1, 3, 3, 1, 1, 1}, {-5});
  EXPECT_EQ(found.y, -5);
  EXPECT_EQ(found.position, 4);
}

TEST(MaxPool, RefusesAStreamOfAGpu) {
  MAILGRAD_SKIP_WITH_CUDA();
  const floats x(4);
  float y = 0;
  std::int32_t chosen = 0;
  EXPECT_THROW(max_pool(cuda_stream{}, two_by_two.grid(), x.data(), &y, &chosen), device_error);
}

} // namespace
} // namespace mailgrad
