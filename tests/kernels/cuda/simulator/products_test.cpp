#include "simulator_test.hpp"

#include <mailgrad/kernels/cuda/products.hpp>

#include <gtest/gtest.h>

#include <string>

namespace mailgrad {
namespace {

using testing::card_array;

class SimulatedProducts : public testing::simulator_test {
protected:
  /// What is said of a product of 4 x 5 by 5 x 6 with operands of these sizes.
  static std::string refusal_of(std::size_t a, std::size_t b, std::size_t c, std::size_t bias = 6) {
    cuda::card_lane lane(0);
    const card_array<float> x(lane, a), y(lane, b), z(lane, c), v(lane, bias);
    const cuda_stream& s = stream_of(lane);
    return refusal([&] { s.products->run(s, {4, 6, 5}, x.data(), y.data(), z.data(), v.data()); });
  }
};

TEST_F(SimulatedProducts, NeedOperandsAsLongAsTheirShapes) {
  EXPECT_EQ(refusal_of(20, 30, 24), "");
  EXPECT_EQ(refusal_of(19, 30, 24), "gemm: A has 20 elements, but only 19 are allocated");
  EXPECT_EQ(refusal_of(20, 29, 24), "gemm: B has 30 elements, but only 29 are allocated");
  EXPECT_EQ(refusal_of(20, 30, 23), "gemm: C has 24 elements, but only 23 are allocated");
  EXPECT_EQ(refusal_of(20, 30, 24, 5), "gemm: the bias has 6 elements, but only 5 are allocated");
}

TEST_F(SimulatedProducts, NeedMemoryOfTheirCard) {
  cuda::card_lane lane(0);
  const std::vector<float> x(20);
  const card_array<float> y(lane, 30), z(lane, 24);
  const cuda_stream& s = stream_of(lane);
  EXPECT_EQ(refusal([&] {
              s.products->run(s, {4, 6, 5}, x.data(), y.data(), z.data());
            }),
            "gemm: A is no memory of cuda:0");
}

} // namespace
} // namespace mailgrad
