#include "simulator_test.hpp"

#include <mailgrad/kernels/cuda/products.hpp>

#include <gtest/gtest.h>

#include <string>

namespace mailgrad {
namespace {

using testing::gpu_array;

class SimulatedProducts : public testing::simulator_test {
protected:
  /// What is said of a product of 4 x 5 by 5 x 6 with operands of these sizes.
  static std::string refusal_of(std::size_t a, std::size_t b, std::size_t c, std::size_t bias = 6) {
    cuda::gpu_queue queue(0);
    const gpu_array<float> x(queue, a), y(queue, b), z(queue, c), v(queue, bias);
    const cuda_stream& s = stream_of(queue);
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

TEST_F(SimulatedProducts, NeedMemoryOfTheirGpu) {
  cuda::gpu_queue queue(0);
  const std::vector<float> x(20);
  const gpu_array<float> y(queue, 30), z(queue, 24);
  const cuda_stream& s = stream_of(queue);
  EXPECT_EQ(refusal([&] {
              s.products->run(s, {4, 6, 5}, x.data(), y.data(), z.data());
            }),
            "gemm: A is no memory of cuda:0");
}

/// 1 + 2^-11 is as near to 1 as to the next number of TF32, and is rounded away from 0.
TEST_F(SimulatedProducts, InTf32RoundTheirOperands) {
  for (const auto& [precision, expected] :
       {std::pair(product_precision::float32, 1 + 0x1p-11F), std::pair(product_precision::tf32, 1 + 0x1p-10F),
        std::pair(product_precision::bfloat16, 1 + 0x1p-11F)}) { // here it is the caller who rounds
    cuda::gpu_queue queue(0, precision);
    const gpu_array<float> x(queue, std::vector{1 + 0x1p-11F}), y(queue, std::vector{1.0F}), z(queue, 1);
    EXPECT_EQ(stream_of(queue).products->precision(), precision);
    stream_of(queue).products->run(stream_of(queue), {1, 1, 1}, x.data(), y.data(), z.data());
    EXPECT_EQ(z.read().front(), expected) << name(precision);
    stream_of(queue).products->run(stream_of(queue), {1, 1, 1}, y.data(), x.data(), z.data());
    EXPECT_EQ(z.read().front(), expected) << name(precision);
  }
}

} // namespace
} // namespace mailgrad
