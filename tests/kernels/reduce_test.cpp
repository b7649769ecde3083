#include <mailgrad/kernels/reduce.hpp>

#include <Eigen/Core>
#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using float_array = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

TEST(PlanSum, JoinsNeighboursOfOneKind) {
  EXPECT_EQ(plan_sum({2, 3, 4, 5}, {true, true, false, false}).rank, 2U);
  EXPECT_EQ(plan_sum({2, 3, 4, 5}, {true, false, true, false}).rank, 4U);
  EXPECT_EQ(plan_sum({2, 3, 4, 5}, {true, true, false, false}).result_size, 20U);
}

TEST(Sum, AgreesWithEigenAlongEitherAxis) {
  for (const Eigen::Index rows : {1, 3, 64})
    for (const Eigen::Index columns : {1, 7, 8, 33, 200}) {
      const float_array x = float_array::Random(rows, columns);
      const auto extents = shape{static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)};
      Eigen::ArrayXf down(columns), across(rows);
      sum(host_stream{}, plan_sum(extents, {true, false}), x.data(), 2, down.data());
      sum(host_stream{}, plan_sum(extents, {false, true}), x.data(), 2, across.data());
      EXPECT_LT((down - 2 * x.colwise().sum().transpose()).abs().maxCoeff(), 4e-5F);
      EXPECT_LT((across - 2 * x.rowwise().sum()).abs().maxCoeff(), 4e-5F);
    }
}

TEST(MeanSquaredDifference, AgreesWithEigen) {
  for (const Eigen::Index n : {1, 31, 32, 33, 10000}) {
    const Eigen::ArrayXf a = Eigen::ArrayXf::Random(n), b = Eigen::ArrayXf::Random(n);
    float y = 0;
    mean_squared_difference(host_stream{}, a.data(), b.data(), static_cast<std::size_t>(n), &y);
    EXPECT_NEAR(y, (a - b).square().mean(), 1e-5F);
  }
}

} // namespace
} // namespace mailgrad
