#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/layer_norm.hpp>

namespace mailgrad {
namespace {

using testing::expect_close, testing::normal_values, testing::one_shifted_of;

using floats = std::vector<float>;

class gpu_layer_norm_test : public testing::gpu_test {
protected:
  static floats drawn_rows(const layer_norm_rows& r) {
    floats x = normal_values(r.rows * r.width, 1);
    for (float& value : x) value = 3 * value + 2;
    return x;
  }

  /// `shifts` has one for each array that may be moved in packs. Returns the rows of the GPU.
  floats expect_forward(const layer_norm_rows& r, const floats& values,
                        const std::vector<std::size_t>& shifts) {
    const auto x = given(values, shifts[0]), gamma = given(normal_values(r.width, 2), shifts[1]),
               beta = given(normal_values(r.width, 3), shifts[2]);
    auto y = wanted(values.size(), shifts[3]), mean = wanted(r.rows), inverse = wanted(r.rows);
    on_both([&](const stream& s, auto at) {
      layer_norm(s, r, at(x), at(gamma), at(beta), at(y), at(mean), at(inverse));
    });
    for (const auto* made : {&y, &mean, &inverse}) expect_close(*made);
    return y.there.read();
  }
  void expect_backward(const layer_norm_rows& r, const std::vector<std::size_t>& shifts) {
    const floats values = drawn_rows(r);
    const auto x = given(values, shifts[0]), gamma = given(normal_values(r.width, 2), shifts[1]),
               dy = given(normal_values(values.size(), 4), shifts[2]);
    floats y(values.size()), of_mean(r.rows), of_inverse(r.rows);
    layer_norm(host_stream{}, r, values.data(), gamma.here.data(), normal_values(r.width, 3).data(), y.data(),
               of_mean.data(), of_inverse.data());
    const auto mean = given(of_mean), inverse = given(of_inverse);
    const float sums = std::sqrt(static_cast<float>(r.rows)) + 1;
    auto dx = wanted(values.size(), shifts[3]);
    floats first[2];
    for (int turn = 0; turn < 2; ++turn) {
      auto dgamma = wanted(r.width), dbeta = wanted(r.width);
      on_both([&](const stream& s, auto at) {
        layer_norm_gradient(s, r, at(x), at(gamma), at(mean), at(inverse), at(dy), at(dx), at(dgamma),
                            at(dbeta));
      });
      expect_close(dx);
      expect_close(dgamma, sums);
      expect_close(dbeta, sums);
      const floats again[] = {dgamma.there.read(), dbeta.there.read()};
      for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(turn == 0 || again[i] == first[i]) << "another order of the sum";
        first[i] = again[i];
      }
    }
  }
};

/// Rows and their width.
class GpuLayerNorm : public gpu_layer_norm_test,
                     public ::testing::WithParamInterface<std::tuple<std::size_t, std::size_t>> {
protected:
  layer_norm_rows r{std::get<0>(GetParam()), std::get<1>(GetParam())};
};

TEST_P(GpuLayerNorm, EqualsThatOfTheHost) { expect_forward(r, drawn_rows(r), {0, 0, 0, 0}); }
TEST_P(GpuLayerNorm, HasTheGradientOfTheHost) { expect_backward(r, {0, 0, 0, 0}); }

INSTANTIATE_TEST_SUITE_P(Shapes, GpuLayerNorm,
                         ::testing::Combine(::testing::Values(0U, 1U, 37U),
                                            ::testing::Values(2U, 3U, 32U, 33U, 64U, 100U, 130U, 384U, 768U,
                                                              1023U, 1024U, 1025U, 1600U)));
INSTANTIATE_TEST_SUITE_P(ManyRows, GpuLayerNorm,
                         ::testing::Values(std::tuple(13000U, 5U), std::tuple(1700U, 40U),
                                           std::tuple(70U, 1100U)));

using GpuLayerNormEdges = gpu_layer_norm_test;

TEST_F(GpuLayerNormEdges, ArraysMayEachStartAtAnyFloat) {
  const layer_norm_rows r{5, 256};
  for (const auto& shifts : one_shifted_of(4)) {
    SCOPED_TRACE(::testing::PrintToString(shifts));
    expect_forward(r, drawn_rows(r), shifts);
    expect_backward(r, shifts);
  }
}

TEST_F(GpuLayerNormEdges, ARowFarFromZeroKeepsItsVariance) {
  const layer_norm_rows r{3, 96};
  floats values = drawn_rows(r);
  for (float& value : values) value = 1000 + value / 100;
  const auto x = given(values), gamma = given(normal_values(96, 2)), beta = given(normal_values(96, 3));
  auto y = wanted(values.size()), mean = wanted(3), inverse = wanted(3);
  on_both([&](const stream& s, auto at) {
    layer_norm(s, r, at(x), at(gamma), at(beta), at(y), at(mean), at(inverse));
  });
  const floats found = inverse.there.read();
  for (std::size_t row = 0; row < 3; ++row) EXPECT_NEAR(found[row] / inverse.here[row], 1, 1e-3);
}

TEST_F(GpuLayerNormEdges, ANanSpoilsItsRowAlone) {
  for (const std::size_t width : {7U, 64U, 1500U}) {
    const layer_norm_rows r{3, width};
    floats values = drawn_rows(r);
    values[width + 2] = std::numeric_limits<float>::quiet_NaN();
    const floats y = expect_forward(r, values, {0, 0, 0, 0});
    EXPECT_TRUE(std::isnan(y[width]));
    EXPECT_FALSE(std::isnan(y[0]));
  }
}

} // namespace
} // namespace mailgrad
