#include <mailgrad/tensor/shape.hpp>

#include <mailgrad/tensor/error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mailgrad {
namespace {

TEST(Shape, OfAScalarHasRankZeroAndOneElement) {
  const shape scalar;
  EXPECT_EQ(scalar.rank(), 0U);
  EXPECT_EQ(scalar.size(), 1U);
  EXPECT_EQ(to_string(scalar), "scalar");
}

TEST(Shape, CountsItsElements) {
  EXPECT_EQ((shape{64, 28, 28, 3}).size(), 64U * 28 * 28 * 3);
  EXPECT_EQ((shape{64, 0, 3}).size(), 0U);
}

TEST(Shape, ListsExtentsOutermostFirst) {
  const shape s{2, 3, 5};
  EXPECT_EQ(s[0], 2U);
  EXPECT_EQ(s.back(), 5U);
  EXPECT_EQ(std::vector<std::size_t>(s.begin(), s.end()), (std::vector<std::size_t>{2, 3, 5}));
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
  const std::vector<std::size_t> extents(shape::max_rank + 1, 2);
  EXPECT_NO_THROW(shape{std::span{extents}.first(shape::max_rank)});
  try {
    shape{std::span{extents}};
    FAIL() << "nine extents were taken";
  } catch (const shape_error& e) {
    EXPECT_STREQ(e.what(), "a shape has at most 8 extents, got 9");
  }
}

TEST(ShapeError, NamesTheOperationAndBothShapes) {
  EXPECT_STREQ(shape_error("gemm", {2, 3}, {4, 5}).what(), "gemm: 2x3 against 4x5");
}

} // namespace
} // namespace mailgrad
