#include <mailgrad/tensor/tensor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace mailgrad {
namespace {

TEST(Tensor, BeginsAsZeros) {
  const tensor t({3, 5});
  EXPECT_EQ(t.type(), dtype::float32);
  EXPECT_EQ(t.values().size(), 15U);
  EXPECT_TRUE(std::ranges::all_of(t.values(), [](float x) { return x == 0.0F; }));
}

TEST(Tensor, HoldsLabelsToo) {
  tensor labels({4}, dtype::int32);
  labels.values<std::int32_t>()[3] = -7;
  EXPECT_EQ(std::as_const(labels).values<std::int32_t>()[3], -7);
  EXPECT_EQ(labels.type(), dtype::int32);
}

TEST(Tensor, OfRankZeroIsOneNumber) {
  tensor t{shape{}};
  t.values()[0] = 2.5F;
  EXPECT_EQ(t.size(), 1U);
}

TEST(Tensor, MayBeEmpty) {
  const tensor t({0, 5});
  EXPECT_EQ(t.size(), 0U);
  EXPECT_TRUE(t.values().empty());
}

TEST(Dtype, KnowsItsElementAndItsName) {
  EXPECT_EQ(dtype_of<float>, dtype::float32);
  EXPECT_EQ(dtype_of<std::int32_t>, dtype::int32);
  EXPECT_EQ(byte_size(dtype::int32), sizeof(std::int32_t));
  EXPECT_EQ(to_string(dtype::float32), "float32");
  EXPECT_EQ(to_string(dtype::int32), "int32");
}

} // namespace
} // namespace mailgrad
