#include <mailgrad/kernels/gemm.hpp>

#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/error.hpp>

#include <Eigen/Core>
#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

namespace mailgrad {
namespace {

using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

matrix random_matrix(std::size_t rows, std::size_t columns) {
  return matrix::Random(static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns));
}

/// What gemm() makes of two operands; the memory around the result must stay as it was.
matrix product(const gemm_shape& g, const matrix& a, const matrix& b) {
  constexpr std::size_t margin = 64;
  std::vector<float> memory(g.m * g.n + 2 * margin, -7);
  block scratch(gemm_scratch_bytes(g));
  const matrix left = g.a == operand_order::as_is ? a : matrix(a.transpose());
  const matrix right = g.b == operand_order::as_is ? b : matrix(b.transpose());
  gemm(host_stream{}, g, left.data(), right.data(), memory.data() + margin, scratch.data());
  for (std::size_t i = 0; i < margin; ++i) {
    EXPECT_EQ(memory[i], -7);
    EXPECT_EQ(memory[margin + g.m * g.n + i], -7);
  }
  return Eigen::Map<matrix>(memory.data() + margin, a.rows(), b.cols());
}

using extents = std::tuple<std::size_t, std::size_t, std::size_t>;

class GemmOfShape : public testing::TestWithParam<extents> {};

TEST_P(GemmOfShape, AgreesWithEigen) {
  using enum operand_order;
  const auto [m, n, k] = GetParam();
  const matrix a = random_matrix(m, k), b = random_matrix(k, n);
  const matrix expected = (a.cast<double>() * b.cast<double>()).cast<float>();
  for (const operand_order left : {as_is, transposed})
    for (const operand_order right : {as_is, transposed}) {
      const matrix c = product({m, n, k, left, right, 1}, a, b);
      EXPECT_LT((c - expected).cwiseAbs().maxCoeff(), 2e-6F * static_cast<float>(k + 10))
          << "a " << (left == transposed) << " b " << (right == transposed);
    }
}

INSTANTIATE_TEST_SUITE_P(Layers, GemmOfShape,
                         testing::Values(extents{64, 512, 784}, extents{64, 10, 784}, extents{784, 10, 64},
                                         extents{64, 256, 10}, extents{256, 65, 128}, extents{64, 64, 32}));
INSTANTIATE_TEST_SUITE_P(Edges, GemmOfShape,
                         testing::Combine(testing::Values(1, 2, 5, 6, 7, 13, 31),
                                          testing::Values(1, 2, 7, 8, 9, 11, 16, 17, 33),
                                          testing::Values(1, 7, 8, 17, 300)));

/// A C just large enough to be written past the caches and just too small; one float too narrow; at the depth
/// that is still one block, and deeper; of one strip of rows; and, by the second number, with rows that begin
/// within cache lines.
class GemmReadLater : public testing::TestWithParam<std::tuple<extents, std::size_t>> {};

TEST_P(GemmReadLater, GivesTheSameBits) {
  using enum operand_order;
  const extents sides = std::get<0>(GetParam());
  const std::size_t offset =
      std::get<1>(GetParam()); // no structured binding: clang 16 captures none under OpenMP
  const std::size_t m = std::get<0>(sides), n = std::get<1>(sides), k = std::get<2>(sides);
  for (const operand_order left : {as_is, transposed})
    for (const operand_order right : {as_is, transposed}) {
      const gemm_shape g{m, n, k, left, right, 2};
      const matrix a = random_matrix(2 * m, k), b = random_matrix(2 * n, k);
      block scratch(gemm_scratch_bytes(g));
      const auto result = [&](next_use c_use) {
        block memory((2 * m * n + 32) * sizeof(float));
        std::ranges::fill(memory.as<float>(), -7.0F);
        gemm(host_stream{}, g, a.data(), b.data(), memory.as<float>().data() + offset, scratch.data(), c_use);
        return std::vector<float>(memory.as<float>().begin(), memory.as<float>().end());
      };
      EXPECT_EQ(result(next_use::later), result(next_use::soon));
    }
}

INSTANTIATE_TEST_SUITE_P(Sides, GemmReadLater,
                         testing::Combine(testing::Values(extents{512, 128, 20}, extents{511, 128, 20},
                                                          extents{784, 127, 20}, extents{300, 240, 400},
                                                          extents{300, 240, 401}, extents{8, 8192, 3}),
                                          testing::Values(0, 1, 8, 16)));

TEST(Gemm, AddsTheBiasAndAppliesRelu) {
  const gemm_shape g{5, 7, 3};
  const matrix a = random_matrix(5, 3), b = random_matrix(3, 7), bias = random_matrix(1, 7);
  const matrix plain = product(g, a, b), biased = plain.rowwise() + bias.row(0);
  block scratch(gemm_scratch_bytes(g));
  const auto with = [&](const gemm_epilogue& e) {
    matrix c(5, 7);
    gemm(host_stream{}, g, a.data(), b.data(), c.data(), scratch.data(), next_use::later, e);
    return c;
  };
  EXPECT_EQ(with({bias.data(), false}), biased);
  EXPECT_EQ(with({bias.data(), true}), biased.cwiseMax(0));
  EXPECT_EQ(with({nullptr, true}), plain.cwiseMax(0));
}

TEST(Gemm, MultipliesEachMatrixOfABatch) {
  const gemm_shape one{5, 9, 20, operand_order::as_is, operand_order::as_is, 1};
  gemm_shape three = one;
  three.batch = 3;
  std::vector<float> a(3 * 5 * 20), b(3 * 20 * 9), c(3 * 5 * 9), expected(c.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 17) - 8;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 13) - 6;
  block scratch(gemm_scratch_bytes(three));
  gemm(host_stream{}, three, a.data(), b.data(), c.data(), scratch.data());
  for (std::size_t i = 0; i < 3; ++i)
    gemm(host_stream{}, one, &a[i * 100], &b[i * 180], &expected[i * 45], scratch.data());
  EXPECT_EQ(c, expected);
}

/// One row with zeros in it, at widths and depths about those of a vector and of the rows read at once.
TEST(Gemm, OfOneRowWithZerosAgreesWithEigen) {
  for (const std::size_t n : {2, 10, 15, 16, 17, 48, 65})
    for (const std::size_t k : {1, 7, 8, 9, 17, 500}) {
      matrix a = random_matrix(1, k);
      const matrix b = random_matrix(k, n);
      for (Eigen::Index p = 0; p < a.cols(); ++p)
        if (p % 3 == 1 || p % 7 == 0) a(0, p) = p % 2 == 0 ? 0.0F : -0.0F;
      const matrix expected = (a.cast<double>() * b.cast<double>()).cast<float>();
      const matrix c = product({1, n, k, operand_order::as_is, operand_order::as_is, 1}, a, b);
      EXPECT_LT((c - expected).cwiseAbs().maxCoeff(), 2e-6F * static_cast<float>(k + 10)) << n << ' ' << k;
    }
}

TEST(Gemm, OfARowOfZerosIsZero) {
  const matrix a = matrix::Zero(1, 20), b = random_matrix(20, 33);
  EXPECT_EQ(product({1, 33, 20, operand_order::as_is, operand_order::as_is, 1}, a, b), matrix::Zero(1, 33));
}

TEST(Gemm, OfOneRowLetsNaNThroughWhereItIsNotTimesZero) {
  matrix a = random_matrix(1, 33), b = random_matrix(33, 20);
  a(0, 30) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(product({1, 20, 33, operand_order::as_is, operand_order::as_is, 1}, a, b)(0, 7)));
  a(0, 30) = 1;
  b(30, 7) = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(product({1, 20, 33, operand_order::as_is, operand_order::as_is, 1}, a, b)(0, 7)));
}

TEST(Gemm, OfNoInnerElementsIsZero) {
  std::vector<float> c(6, 1);
  gemm(host_stream{}, {2, 3, 0, operand_order::as_is, operand_order::as_is, 1}, nullptr, nullptr, c.data(),
       nullptr);
  EXPECT_EQ(c, std::vector<float>(6, 0));
}

TEST(Gemm, GivesTheSameBitsEveryTime) {
  const matrix a = random_matrix(64, 784), b = random_matrix(784, 10);
  const gemm_shape g{64, 10, 784, operand_order::as_is, operand_order::as_is, 1};
  EXPECT_EQ(product(g, a, b), product(g, a, b));
}

TEST(Gemm, LetsNaNAndInfinityThrough) {
  matrix a = random_matrix(7, 33), b = random_matrix(33, 20);
  a(2, 30) = std::numeric_limits<float>::quiet_NaN();
  b(3, 19) = std::numeric_limits<float>::infinity();
  const matrix c = product({7, 20, 33, operand_order::as_is, operand_order::as_is, 1}, a, b);
  for (Eigen::Index j = 0; j < 20; ++j) EXPECT_TRUE(std::isnan(c(2, j)));
  EXPECT_TRUE(std::isinf(c(0, 19)));
  EXPECT_TRUE(std::isfinite(c(0, 18)));
}

} // namespace
} // namespace mailgrad
