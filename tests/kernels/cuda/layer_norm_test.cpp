#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/layer_norm.hpp>

#include <cmath>
#include <limits>
#include <vector>

namespace mailgrad {
namespace {

using testing::expect_close;
using testing::normal_values;
using testing::one_shifted_of;
using testing::shifted_array;

/// Operands, and what the host makes of them.
struct normalised_rows {
  layer_norm_rows shape;
  std::size_t n = shape.rows * shape.width;
  std::vector<float> x = normal_values(n, 1), gamma = normal_values(shape.width, 2),
                     beta = normal_values(shape.width, 3), dy = normal_values(n, 4);
  std::vector<float> y, mean, inverse, dx, dgamma, dbeta;

  explicit normalised_rows(const layer_norm_rows& r) : shape(r) {
    for (float& value : x) value = 3 * value + 2;
    compute();
  }
  void compute() {
    y.resize(n);
    dx.resize(n);
    for (auto* of_row : {&mean, &inverse}) of_row->resize(shape.rows);
    for (auto* of_column : {&dgamma, &dbeta}) of_column->resize(shape.width);
    const stream host = host_stream{};
    layer_norm(host, shape, x.data(), gamma.data(), beta.data(), y.data(), mean.data(), inverse.data());
    layer_norm_gradient(host, shape, x.data(), gamma.data(), mean.data(), inverse.data(), dy.data(),
                        dx.data(), dgamma.data(), dbeta.data());
  }
};

class gpu_layer_norm_test : public testing::gpu_test {
protected:
  /// `shifts` has one for each array that may be moved in packs.
  void expect_forward(const normalised_rows& of, const std::vector<std::size_t>& shifts) {
    const shifted_array<float> x(queue(), of.x, shifts[0]), gamma(queue(), of.gamma, shifts[1]),
        beta(queue(), of.beta, shifts[2]), y(queue(), of.n, shifts[3]);
    const auto mean = unwritten<float>(of.shape.rows), inverse = unwritten<float>(of.shape.rows);
    layer_norm(gpu(), of.shape, x.data(), gamma.data(), beta.data(), y.data(), mean.data(), inverse.data());
    expect_close(y.read(), of.y);
    expect_close(mean.read(), of.mean);
    expect_close(inverse.read(), of.inverse);
  }
  void expect_backward(const normalised_rows& of, const std::vector<std::size_t>& shifts) {
    const shifted_array<float> x(queue(), of.x, shifts[0]), gamma(queue(), of.gamma, shifts[1]),
        dy(queue(), of.dy, shifts[2]), dx(queue(), of.n, shifts[3]);
    const auto mean = array(of.mean), inverse = array(of.inverse);
    const float sums = std::sqrt(static_cast<float>(of.shape.rows)) + 1;
    std::vector<float> first[2];
    for (int turn = 0; turn < 2; ++turn) {
      const auto dgamma = unwritten<float>(of.shape.width), dbeta = unwritten<float>(of.shape.width);
      layer_norm_gradient(gpu(), of.shape, x.data(), gamma.data(), mean.data(), inverse.data(), dy.data(),
                          dx.data(), dgamma.data(), dbeta.data());
      expect_close(dx.read(), of.dx);
      expect_close(dgamma.read(), of.dgamma, sums);
      expect_close(dbeta.read(), of.dbeta, sums);
      if (turn == 1) {
        EXPECT_EQ(dgamma.read(), first[0]) << "another order of the sum";
        EXPECT_EQ(dbeta.read(), first[1]);
      }
      first[0] = dgamma.read();
      first[1] = dbeta.read();
    }
  }
};

/// Rows and their width.
class GpuLayerNorm : public gpu_layer_norm_test,
                     public ::testing::WithParamInterface<std::tuple<std::size_t, std::size_t>> {
protected:
  normalised_rows of_case() const {
    return normalised_rows({std::get<0>(GetParam()), std::get<1>(GetParam())});
  }
};

TEST_P(GpuLayerNorm, EqualsThatOfTheHost) { expect_forward(of_case(), {0, 0, 0, 0}); }
TEST_P(GpuLayerNorm, HasTheGradientOfTheHost) { expect_backward(of_case(), {0, 0, 0, 0}); }

INSTANTIATE_TEST_SUITE_P(Shapes, GpuLayerNorm,
                         ::testing::Combine(::testing::Values(0U, 1U, 37U),
                                            ::testing::Values(2U, 3U, 32U, 33U, 64U, 100U, 130U, 384U, 768U,
                                                              1023U, 1024U, 1025U, 1600U)));
INSTANTIATE_TEST_SUITE_P(ManyRows, GpuLayerNorm,
                         ::testing::Values(std::tuple(13000U, 5U), std::tuple(1700U, 40U),
                                           std::tuple(70U, 1100U)));

using GpuLayerNormEdges = gpu_layer_norm_test;

TEST_F(GpuLayerNormEdges, ArraysMayEachStartAtAnyFloat) {
  const normalised_rows of({5, 256});
  for (const auto& shifts : one_shifted_of(4)) {
    SCOPED_TRACE(::testing::PrintToString(shifts));
    expect_forward(of, shifts);
    expect_backward(of, shifts);
  }
}

TEST_F(GpuLayerNormEdges, ARowFarFromZeroKeepsItsVariance) {
  normalised_rows of({3, 96});
  for (float& value : of.x) value = 1000 + value / 100;
  of.compute();
  const auto x = array(of.x), gamma = array(of.gamma), beta = array(of.beta), y = unwritten<float>(of.n);
  const auto mean = unwritten<float>(3), inverse = unwritten<float>(3);
  layer_norm(gpu(), of.shape, x.data(), gamma.data(), beta.data(), y.data(), mean.data(), inverse.data());
  const std::vector<float> found = inverse.read();
  for (std::size_t row = 0; row < 3; ++row) EXPECT_NEAR(found[row] / of.inverse[row], 1, 1e-3);
}

TEST_F(GpuLayerNormEdges, ANanSpoilsItsRowAlone) {
  for (const std::size_t width : {7U, 64U, 1500U}) {
    normalised_rows of({3, width});
    of.x[width + 2] = std::numeric_limits<float>::quiet_NaN();
    of.compute();
    expect_forward(of, {0, 0, 0, 0});
    const auto x = array(of.x), gamma = array(of.gamma), beta = array(of.beta), y = unwritten<float>(of.n);
    const auto mean = unwritten<float>(3), inverse = unwritten<float>(3);
    layer_norm(gpu(), of.shape, x.data(), gamma.data(), beta.data(), y.data(), mean.data(), inverse.data());
    EXPECT_TRUE(std::isnan(y.read()[width]));
    EXPECT_FALSE(std::isnan(y.read()[0]));
  }
}

} // namespace
} // namespace mailgrad
