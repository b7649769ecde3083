#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/softmax.hpp>

#include <limits>
#include <vector>

namespace mailgrad {
namespace {

using testing::expect_close;
using testing::normal_values;
using testing::shifted_array;

/// Rows and columns.
class GpuSoftmax : public testing::gpu_test,
                   public ::testing::WithParamInterface<std::tuple<std::size_t, std::size_t>> {
protected:
  std::size_t rows = std::get<0>(GetParam()), columns = std::get<1>(GetParam()), n = rows * columns;
};

TEST_P(GpuSoftmax, EqualsThatOfTheHost) {
  std::vector<float> x = normal_values(n, 1);
  for (float& value : x) value *= 5;
  std::vector<float> expected(n);
  softmax(host_stream{}, x.data(), expected.data(), rows, columns);
  const auto from = array(x), to = unwritten<float>(n);
  softmax(gpu(), from.data(), to.data(), rows, columns);
  expect_close(to.read(), expected, 0.01F);
  softmax(gpu(), from.data(), from.data(), rows, columns);
  EXPECT_EQ(from.read(), to.read());
}

TEST_P(GpuSoftmax, HasTheGradientOfTheHost) {
  std::vector<float> y = normal_values(n, 1);
  softmax(host_stream{}, y.data(), y.data(), rows, columns);
  const std::vector<float> dy = normal_values(n, 2);
  std::vector<float> expected(n);
  softmax_gradient(host_stream{}, y.data(), dy.data(), expected.data(), rows, columns);
  const auto on_y = array(y), on_dy = array(dy), dx = unwritten<float>(n);
  softmax_gradient(gpu(), on_y.data(), on_dy.data(), dx.data(), rows, columns);
  expect_close(dx.read(), expected, 1);
  softmax_gradient(gpu(), on_y.data(), on_dy.data(), on_dy.data(), rows, columns);
  EXPECT_EQ(on_dy.read(), dx.read());
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuSoftmax,
                         ::testing::Combine(::testing::Values(0U, 1U, 37U),
                                            ::testing::Values(1U, 2U, 3U, 10U, 32U, 33U, 100U, 200U, 300U,
                                                              1000U, 1024U, 1025U, 3000U)));
INSTANTIATE_TEST_SUITE_P(ManyRows, GpuSoftmax, ::testing::Values(std::tuple(2200U, 1030U)));

using GpuSoftmaxEdges = testing::gpu_test;

TEST_F(GpuSoftmaxEdges, RowsMayBeginAtAnyFloat) {
  constexpr std::size_t rows = 3, columns = 256, n = rows * columns;
  const std::vector<float> x = normal_values(n, 1), dy = normal_values(n, 2);
  std::vector<float> y(n), dx(n);
  softmax(host_stream{}, x.data(), y.data(), rows, columns);
  softmax_gradient(host_stream{}, y.data(), dy.data(), dx.data(), rows, columns);
  for (unsigned shifted = 0; shifted < 8; ++shifted) { // each of three arrays by itself
    const auto shift = [shifted](unsigned array) { return std::size_t{shifted >> array & 1U}; };
    const shifted_array<float> on_x(queue(), x, shift(0)), to(queue(), n, shift(1));
    softmax(gpu(), on_x.data(), to.data(), rows, columns);
    expect_close(to.read(), y, 0.01F);
    const shifted_array<float> on_y(queue(), y, shift(0)), on_dy(queue(), dy, shift(1)),
        result(queue(), n, shift(2));
    softmax_gradient(gpu(), on_y.data(), on_dy.data(), result.data(), rows, columns);
    expect_close(result.read(), dx, 1);
  }
}

TEST_F(GpuSoftmaxEdges, ANanSpoilsItsRowAlone) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const std::size_t columns : {5U, 2000U}) {
    std::vector<float> x = normal_values(4 * columns, 1);
    x[columns + 1] = nan;
    x[2 * columns] = -inf;
    std::vector<float> expected(x.size());
    softmax(host_stream{}, x.data(), expected.data(), 4, columns);
    const auto on_x = array(x);
    softmax(gpu(), on_x.data(), on_x.data(), 4, columns);
    expect_close(on_x.read(), expected, 0.01F);
    EXPECT_TRUE(std::isnan(on_x.read()[columns]));
  }
}

} // namespace
} // namespace mailgrad
