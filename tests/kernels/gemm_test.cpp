#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/kernels/host/gemm_tile.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/special_floats.hpp>

#include <Eigen/Core>
#include <gtest/gtest.h>

#include <algorithm>

namespace mailgrad {
namespace {

using enum operand_order;
using testing::Combine, testing::Values, testing::infinity, testing::nan;
using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

matrix random_matrix(std::size_t rows, std::size_t columns) {
  return matrix::Random(static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns));
}

/// What gemm() makes of two operands; the memory around the result must stay as it was.
matrix product(const gemm_shape& g, const matrix& a, const matrix& b) {
  constexpr std::size_t margin = 64;
  std::vector<float> memory(g.m * g.n + 2 * margin, -7);
  block scratch(gemm_scratch_bytes(g));
  const matrix left = g.a == as_is ? a : matrix(a.transpose());
  const matrix right = g.b == as_is ? b : matrix(b.transpose());
  gemm(host_stream{}, g, left.data(), right.data(), memory.data() + margin, scratch.data());
  for (std::size_t i = 0; i < margin; ++i) {
    EXPECT_EQ(memory[i], -7);
    EXPECT_EQ(memory[margin + g.m * g.n + i], -7);
  }
  return Eigen::Map<matrix>(memory.data() + margin, a.rows(), b.cols());
}

matrix product(const matrix& a, const matrix& b) {
  return product({static_cast<std::size_t>(a.rows()), static_cast<std::size_t>(b.cols()),
                  static_cast<std::size_t>(a.cols())},
                 a, b);
}

void expect_product(const matrix& c, const matrix& a, const matrix& b) {
  const matrix expected = (a.cast<double>() * b.cast<double>()).cast<float>();
  EXPECT_LT((c - expected).cwiseAbs().maxCoeff(), 2e-6F * static_cast<float>(a.cols() + 10));
}

using extents = std::tuple<std::size_t, std::size_t, std::size_t>;

class GemmOfShape : public testing::TestWithParam<extents> {};

TEST_P(GemmOfShape, AgreesWithEigen) {
  const auto [m, n, k] = GetParam();
  const matrix a = random_matrix(m, k), b = random_matrix(k, n);
  for (const operand_order left : {as_is, transposed})
    for (const operand_order right : {as_is, transposed}) {
      SCOPED_TRACE(testing::Message() << "a " << (left == transposed) << " b " << (right == transposed));
      expect_product(product({m, n, k, left, right}, a, b), a, b);
    }
}

INSTANTIATE_TEST_SUITE_P(Layers, GemmOfShape,
                         Values(extents{64, 512, 784}, extents{64, 10, 784}, extents{784, 10, 64},
                                extents{64, 256, 10}, extents{256, 65, 128}, extents{64, 64, 32}));
INSTANTIATE_TEST_SUITE_P(Edges, GemmOfShape,
                         Combine(Values(1, 2, 5, 6, 7, 13, 31), Values(1, 2, 7, 8, 9, 11, 16, 17, 33),
                                 Values(1, 7, 8, 17, 300)));

/// A C just large enough to be written past the caches and just too small; one float too narrow; at the depth
/// that is still one block, and deeper; of one strip of rows; and, by the second number, with rows that begin
/// within cache lines.
class GemmReadLater : public testing::TestWithParam<std::tuple<extents, std::size_t>> {};

TEST_P(GemmReadLater, GivesTheSameBits) {
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
                         Combine(Values(extents{512, 128, 20}, extents{511, 128, 20}, extents{784, 127, 20},
                                        extents{300, 240, 400}, extents{300, 240, 401}, extents{8, 8192, 3}),
                                 Values(0, 1, 8, 16)));

TEST(Gemm, AddsTheBiasAndAppliesRelu) {
  const gemm_shape g{5, 7, 3};
  const matrix a = random_matrix(5, 3), b = random_matrix(3, 7), bias = random_matrix(1, 7);
  const matrix plain = product(a, b), biased = plain.rowwise() + bias.row(0);
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
  const gemm_shape one{5, 9, 20}, three{5, 9, 20, as_is, as_is, 3};
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
      SCOPED_TRACE(testing::Message() << n << ' ' << k);
      expect_product(product(a, b), a, b);
    }
}

TEST(Gemm, OfARowOfZerosIsZero) {
  const matrix a = matrix::Zero(1, 20), b = random_matrix(20, 33);
  EXPECT_EQ(product(a, b), matrix::Zero(1, 33));
}

TEST(Gemm, OfOneRowLetsNaNThroughWhereItIsNotTimesZero) {
  matrix a = random_matrix(1, 33), b = random_matrix(33, 20);
  a(0, 30) = nan;
  EXPECT_TRUE(std::isnan(product(a, b)(0, 7)));
  a(0, 30) = 1;
  b(30, 7) = infinity;
  EXPECT_TRUE(std::isinf(product(a, b)(0, 7)));
}

TEST(Gemm, OfNoInnerElementsIsZero) {
  std::vector<float> c(6, 1);
  gemm(host_stream{}, {2, 3, 0}, nullptr, nullptr, c.data(), nullptr);
  EXPECT_EQ(c, std::vector<float>(6, 0));
}

TEST(Gemm, GivesTheSameBitsEveryTime) {
  const matrix a = random_matrix(64, 784), b = random_matrix(784, 10);
  EXPECT_EQ(product(a, b), product(a, b));
}

TEST(Gemm, LetsNaNAndInfinityThrough) {
  matrix a = random_matrix(7, 33), b = random_matrix(33, 20);
  a(2, 30) = nan;
  b(3, 19) = infinity;
  const matrix c = product(a, b);
  for (Eigen::Index j = 0; j < 20; ++j) EXPECT_TRUE(std::isnan(c(2, j)));
  EXPECT_TRUE(std::isinf(c(0, 19)));
  EXPECT_TRUE(std::isfinite(c(0, 18)));
}

TEST(Transpose, MovesEveryElementOfAnyShapeAndTouchesNoOther) {
  constexpr std::size_t most = 2 * simd::width + 3, guard = simd::width;
  for (std::size_t rows = 0; rows <= most; ++rows)
    for (std::size_t columns = 0; columns <= most; ++columns)
      for (const std::size_t apart : {0U, 3U}) { // beyond a row, in memory
        const std::size_t from_stride = columns + apart, to_stride = rows + apart;
        std::vector<float> from(rows * from_stride);
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
        std::vector<float> to(columns * to_stride + 2 * guard, -1.0F), expected = to;
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t c = 0; c < columns; ++c)
            expected[guard + c * to_stride + r] = from[r * from_stride + c];
        transpose(from.data(), from_stride, to.data() + guard, to_stride, rows, columns);
        ASSERT_EQ(to, expected) << rows << " x " << columns << ", " << apart << " apart";
      }
}

} // namespace
} // namespace mailgrad
