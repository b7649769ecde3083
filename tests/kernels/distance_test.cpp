#include <mailgrad/kernels/vectors.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace mailgrad {
namespace {

TEST(Distance, IsExactWhereFloat64IsAtEverySize) {
  std::vector<float> a;
  std::vector<float> b;
  double product = 0;
  double squares = 0;
  for (int n = 0; n < 70; ++n) {
    EXPECT_EQ(inner_product(host_stream{}, a, b), product) << n << " values";
    EXPECT_EQ(squared_distance(host_stream{}, a, b), squares) << n << " values";
    a.push_back(static_cast<float>(n) - 20.5F);
    b.push_back(3 - 2 * static_cast<float>(n));
    product += static_cast<double>(a.back()) * static_cast<double>(b.back());
    const double d = static_cast<double>(a.back()) - static_cast<double>(b.back());
    squares += d * d;
  }
}

TEST(Distance, SeesWhatFloat32WouldRoundAway) {
  const std::vector<float> a{1e30F, 1.0F};
  const std::vector<float> b{1e30F, 1.0000001F};
  EXPECT_GT(squared_distance(host_stream{}, a, b), 0);
  EXPECT_EQ(squared_distance(host_stream{}, a, a), 0);
}

} // namespace
} // namespace mailgrad
