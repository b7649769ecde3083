#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/vectors.hpp>

#include <string>
#include <vector>

namespace mailgrad {
namespace {

using testing::normal_values;
using testing::shifted_array;

class GpuDistance : public testing::gpu_test {
protected:
  void expect_as_on_host(std::size_t n, std::size_t shift) {
    SCOPED_TRACE(std::to_string(n) + " from " + std::to_string(shift));
    const std::vector<float> a = normal_values(n, 1), b = normal_values(n, 2);
    const shifted_array<float> on_a(queue(), a, shift), on_b(queue(), b, 0U);
    const auto found = unwritten<double>(2);
    const std::span<const float> there_a(on_a.data(), n), there_b(on_b.data(), n);
    inner_product(gpu(), there_a, there_b, found.data());
    squared_distance(gpu(), there_a, there_b, found.data() + 1);
    const double product = inner_product(host_stream{}, a, b),
                 squares = squared_distance(host_stream{}, a, b);
    EXPECT_NEAR(found.read()[0], product, 1e-13 * static_cast<double>(n));
    EXPECT_NEAR(found.read()[1], squares, 1e-13 * squares);
  }
};

TEST_F(GpuDistance, EqualsThatOfTheHost) {
  for (const std::size_t n : {0U, 1U, 3U, 4U, 1023U, 5000U, 100007U})
    for (const std::size_t shift : {0U, 1U}) expect_as_on_host(n, shift);
  expect_as_on_host(2'200'001, 0); // more than all blocks take in one go
}

TEST_F(GpuDistance, GivesTheSameBitsInEachRun) {
  const auto a = array(normal_values(50'000, 1)), b = array(normal_values(50'000, 2));
  const auto found = unwritten<double>(3);
  inner_product(gpu(), a.span(), b.span(), found.data());
  inner_product(gpu(), a.span(), b.span(), found.data() + 1);
  squared_distance(gpu(), a.span(), a.span(), found.data() + 2);
  EXPECT_EQ(found.read()[0], found.read()[1]);
  EXPECT_EQ(found.read()[2], 0);
}

TEST(HostDistance, IsWrittenWhereItIsAskedFor) {
  const std::vector<float> a{1, 2, 3}, b{4, 5, 7};
  double product = 0, squares = 0;
  inner_product(host_stream{}, a, b, &product);
  squared_distance(host_stream{}, a, b, &squares);
  EXPECT_EQ(product, 35);
  EXPECT_EQ(squares, 34);
}

} // namespace
} // namespace mailgrad
