#include <mailgrad/kernels/layer_norm.hpp>
#include <mailgrad/tensor/error.hpp>

#include <Eigen/Core>
#include <gtest/gtest.h>

#include <cmath>

namespace mailgrad {
namespace {

using float_array = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using row = Eigen::Array<float, 1, Eigen::Dynamic>;

struct normalised {
  float_array y;
  Eigen::ArrayXf mean, inverse;
};

normalised run(const float_array& x, const row& gamma, const row& beta, float epsilon) {
  normalised r{float_array(x.rows(), x.cols()), Eigen::ArrayXf(x.rows()), Eigen::ArrayXf(x.rows())};
  layer_norm(host_stream{}, {static_cast<std::size_t>(x.rows()), static_cast<std::size_t>(x.cols()), epsilon},
             x.data(), gamma.data(), beta.data(), r.y.data(), r.mean.data(), r.inverse.data());
  return r;
}

TEST(LayerNorm, AgreesWithEigenForAnyWidth) {
  constexpr float epsilon = 1e-3F;
  for (const Eigen::Index width : {1, 2, 7, 8, 9, 64, 129}) {
    std::srand(3);
    const float_array x = float_array::Random(5, width) * 3 + 1;
    const row gamma = row::Random(width), beta = row::Random(width);
    const float_array centred = x.colwise() - x.rowwise().mean();
    const Eigen::ArrayXf inverse = (centred.square().rowwise().mean() + epsilon).rsqrt();
    const float_array expected = ((centred.colwise() * inverse).rowwise() * gamma).rowwise() + beta;
    const normalised r = run(x, gamma, beta, epsilon);
    EXPECT_LT((r.y - expected).abs().maxCoeff(), 1e-4F) << width;
    EXPECT_LT((r.mean - x.rowwise().mean()).abs().maxCoeff(), 1e-5F) << width;
    EXPECT_LT(((r.inverse - inverse) / inverse).abs().maxCoeff(), 1e-4F) << width;
  }
}

TEST(LayerNorm, KeepsItsPrecisionFarFromZero) {
  float_array x(1, 4);
  x << 4095, 4096, 4097, 4098;
  const normalised r = run(x, row::Ones(4), row::Zero(4), 1e-5F);
  EXPECT_NEAR(r.y(0, 0), -1.3416355F, 1e-4F);
  EXPECT_NEAR(r.y(0, 3), 1.3416355F, 1e-4F);
}

TEST(LayerNorm, OfEqualElementsIsTheShift) {
  const normalised r = run(float_array::Constant(2, 8, 3), row::Ones(8), row::Constant(8, 0.5F), 1e-5F);
  EXPECT_TRUE((r.y == 0.5F).all());
}

TEST(LayerNorm, GradientsSumOverRows) {
  std::srand(4);
  const float_array x = float_array::Random(6, 10), dy = float_array::Random(6, 10);
  const row gamma = row::Random(10);
  const normalised r = run(x, gamma, row::Zero(10), 1e-5F);
  float_array dx(6, 10);
  row dgamma = row::Constant(10, 7), dbeta = row::Constant(10, 7);
  layer_norm_gradient(host_stream{}, {6, 10, 1e-5F}, x.data(), gamma.data(), r.mean.data(), r.inverse.data(),
                      dy.data(), dx.data(), dgamma.data(), dbeta.data());
  const float_array x_hat = (x.colwise() - r.mean).colwise() * r.inverse;
  EXPECT_LT((dbeta - dy.colwise().sum()).abs().maxCoeff(), 1e-5F);
  EXPECT_LT((dgamma - (dy * x_hat).colwise().sum()).abs().maxCoeff(), 1e-5F);
  const float_array g = dy.rowwise() * gamma;
  const float_array expected =
      (g.colwise() - g.rowwise().mean() - x_hat.colwise() * Eigen::ArrayXf((g * x_hat).rowwise().mean()))
          .colwise() *
      r.inverse;
  EXPECT_LT((dx - expected).abs().maxCoeff(), 1e-4F);
}

TEST(LayerNorm, HasNoCudaVersion) {
  float v = 0;
  EXPECT_THROW(layer_norm(cuda_stream{}, {1, 1}, &v, &v, &v, &v, &v, &v), device_error);
}

} // namespace
} // namespace mailgrad
