#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/shape.hpp>
#include <mailgrad/tensor/tensor.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <span>

namespace mailgrad {
namespace {

using testing::AllOf, testing::Each, testing::ElementsAre, testing::IsEmpty, testing::SizeIs,
    testing::expect_refused;

constexpr std::size_t all = ~std::size_t{0};

TEST(Shape, OfAScalarHasRankZeroAndOneElement) {
  const shape scalar;
  EXPECT_EQ(scalar.rank(), 0U);
  EXPECT_EQ(scalar.size(), 1U);
  EXPECT_EQ(to_string(scalar), "scalar");
}

TEST(Shape, CountsItsElements) {
  EXPECT_EQ((shape{64, 28, 28, 3}).size(), 64U * 28 * 28 * 3);
  EXPECT_EQ((shape{64, 0, 3}).size(), 0U);
  EXPECT_EQ((shape{all, 0, all}).size(), 0U) << "of nothing there may be any number";
}

TEST(Shape, ListsExtentsOutermostFirst) {
  const shape s{2, 3, 5};
  EXPECT_EQ(s[0], 2U);
  EXPECT_EQ(s.back(), 5U);
  EXPECT_THAT(std::vector(s.begin(), s.end()), ElementsAre(2, 3, 5));
  EXPECT_EQ(to_string(s), "2x3x5");
}

TEST(Shape, LetsAnExtentBeReplaced) {
  shape s{2, 3};
  s[0] = 7;
  EXPECT_EQ(s, (shape{7, 3}));
}

TEST(Shape, ComparesRankAndExtents) {
  EXPECT_EQ((shape{2, 3}), (shape{2, 3}));
  EXPECT_NE((shape{2, 3}), (shape{3, 2}));
  EXPECT_NE((shape{2, 3}), (shape{2, 3, 1}));
  EXPECT_NE(shape{}, (shape{1}));
}

TEST(Shape, HoldsAtMostEightExtents) {
  const std::vector<std::size_t> nine(shape::max_rank + 1, 2);
  EXPECT_NO_THROW(shape{std::span{nine}.first(shape::max_rank)});
  EXPECT_THAT([&] { shape{std::span{nine}}; },
              testing::ThrowsMessage<shape_error>("a shape has at most 8 extents, got 9"));
}

TEST(ShapeError, NamesTheOperationAndBothShapes) {
  EXPECT_STREQ(shape_error("gemm", {2, 3}, {4, 5}).what(), "gemm: 2x3 against 4x5");
}

TEST(Tensor, BeginsAsZeros) {
  const tensor t({3, 5});
  EXPECT_EQ(t.type(), dtype::float32);
  EXPECT_THAT(t.values(), AllOf(SizeIs(15), Each(0.0F)));
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
  EXPECT_THAT(t.values(), IsEmpty());
}

TEST(Dtype, KnowsItsElementAndItsName) {
  EXPECT_EQ(dtype_of<float>, dtype::float32);
  EXPECT_EQ(dtype_of<std::int32_t>, dtype::int32);
  EXPECT_EQ(byte_size(dtype::int32), sizeof(std::int32_t));
  EXPECT_EQ(to_string(dtype::float32), "float32");
  EXPECT_EQ(to_string(dtype::int32), "int32");
}

TEST(Refusals, OfShapesThatNoMemoryHolds) {
  const std::vector<std::size_t> two{all, 2}, wrapping(2, std::size_t{1} << 32);
  expect_refused("more elements than memory can hold", [&] { shape{std::span(two)}; });
  expect_refused("4294967296x", [&] { shape{std::span(wrapping)}; }); // to nothing
  expect_refused("more elements", [] { tensor(shape{std::size_t{1} << 62}); });
}

TEST(Refusals, LeaveNothingBehindInATensorThatWasMoved) {
  tensor t({3});
  const tensor taken = std::move(t);
  EXPECT_EQ(taken.values().size(), 3U);
  EXPECT_TRUE(t.values().empty()); // NOLINT(bugprone-use-after-move): shape 0, by contract
}

} // namespace
} // namespace mailgrad
