#include "../../support/gpu_test.hpp"
#include "../../support/window_shapes.hpp"

#include <mailgrad/kernels/pooling.hpp>

#include <algorithm>

namespace mailgrad {
namespace {

using testing::drawn_integers, testing::expect_same, testing::one_shifted_of, testing::pooled_windows;

/// Few different numbers, so that many are equal.
std::vector<float> few_values(std::size_t n, std::uint64_t seed) {
  const auto drawn = drawn_integers(n, 8, seed);
  std::vector<float> values(drawn.begin(), drawn.end());
  for (float& value : values) value -= 4.3F;
  return values;
}

std::size_t x_size(const window_grid& g) { return g.batch * g.image_size(); }
std::size_t y_size(const window_grid& g) { return g.batch * g.windows() * g.channels; }

/// How many images a kernel computes: all, or one at a time, as where several do not fit into 32 bits.
enum class images : std::uint8_t { all, one_by_one };

/// Windows, how far the arrays are shifted, and how many images are computed at a time.
class GpuPooling : public testing::gpu_test,
                   public ::testing::WithParamInterface<std::tuple<pooled_windows, std::size_t, images>> {
protected:
  template <class Kernels>
  void on_both(const Kernels& kernels) {
    const std::size_t one = std::max(g.image_size(), g.windows() * g.channels);
    on_host_and(std::get<2>(GetParam()) == images::all ? gpu() : gpu_with_few_in_32_bits(one), kernels);
  }

  window_grid g = std::get<0>(GetParam()).grid();
  std::size_t shift = std::get<1>(GetParam());
  std::vector<float> x = few_values(x_size(g), 1), dy = few_values(y_size(g), 2);
};

TEST_P(GpuPooling, OfTheLargestHasTheBitsOfTheHost) {
  if (x.size() > 2) x[2] = std::numeric_limits<float>::quiet_NaN();
  const auto from = given(x, shift);
  auto y = wanted(y_size(g), shift);
  auto chosen = wanted<std::int32_t>(y_size(g));
  on_both([&](const stream& s, auto at) { max_pool(s, g, at(from), at(y), at(chosen)); });
  const auto found = y.there.read();
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_TRUE(found[i] == y.here[i] || (std::isnan(y.here[i]) && std::isnan(found[i]))) << i;
  expect_same(chosen);
}

TEST_P(GpuPooling, OfTheLargestHasTheGradientOfTheHost) {
  std::vector<float> y(y_size(g));
  std::vector<std::int32_t> largest(y_size(g));
  max_pool(host_stream{}, g, x.data(), y.data(), largest.data());
  const auto from = given(dy, shift);
  const auto chosen = given(largest);
  auto dx = wanted(x_size(g), shift);
  on_both([&](const stream& s, auto at) { max_pool_gradient(s, g, at(from), at(chosen), at(dx)); });
  expect_same(dx);
}

TEST_P(GpuPooling, OfMeansHasTheBitsOfTheHost) {
  const auto from = given(x, shift);
  auto y = wanted(y_size(g), shift);
  on_both([&](const stream& s, auto at) { average_pool(s, g, at(from), at(y)); });
  expect_same(y);
}

TEST_P(GpuPooling, OfMeansHasTheGradientOfTheHost) {
  const auto from = given(dy, shift);
  auto dx = wanted(x_size(g), shift);
  on_both([&](const stream& s, auto at) { average_pool_gradient(s, g, at(from), at(dx)); });
  expect_same(dx);
}

using GpuPoolingArrays = testing::gpu_test;

TEST_F(GpuPoolingArrays, MayEachStartAtAnyFloat) {
  const window_grid g = pooled_windows{2, 6, 6, 8, 2, 2, 2, 2}.grid();
  for (const auto& shifts : one_shifted_of(3)) {
    SCOPED_TRACE(::testing::PrintToString(shifts));
    const auto x = given(few_values(x_size(g), 1), shifts[0]),
               dy = given(few_values(y_size(g), 2), shifts[0]);
    auto y = wanted(y_size(g), shifts[1]), dx = wanted(x_size(g), shifts[1]);
    auto chosen = wanted<std::int32_t>(y_size(g), shifts[2]);
    on_both([&](const stream& s, auto at) { max_pool(s, g, at(x), at(y), at(chosen)); });
    expect_same(y);
    expect_same(chosen);
    on_both([&](const stream& s, auto at) { average_pool(s, g, at(x), at(y)); });
    expect_same(y);
    on_both([&](const stream& s, auto at) { max_pool_gradient(s, g, at(dy), at(chosen), at(dx)); });
    expect_same(dx);
    on_both([&](const stream& s, auto at) { average_pool_gradient(s, g, at(dy), at(dx)); });
    expect_same(dx);
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
