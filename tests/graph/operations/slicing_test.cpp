#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

#include <array>
#include <numeric>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::run_once;
using test::tensor_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

value x_of(graph& g, const shape& dims) { return g.variable("x", dims, initialiser::uniform(-1, 1)); }

value counting(graph& g, const shape& dims) {
  std::vector<float> v(dims.size());
  std::iota(v.begin(), v.end(), 0.0F);
  return g.constant(tensor_of(dims, v));
}

TEST(Slice, CutsAlongAnyAxis) {
  graph g;
  const value x = counting(g, {2, 3, 2});
  EXPECT_THAT(run_once(slice(x, 0, 1, 2)), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(run_once(slice(x, 1, 1, 3)), ElementsAre(2, 3, 4, 5, 8, 9, 10, 11));
  EXPECT_THAT(run_once(slice(x, 2, 0, 1)), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_EQ(slice(x, 1, 1, 3).dims(), (shape{2, 2, 2}));
}

TEST(Slice, MayBeEmptyOrAll) {
  graph g;
  const value x = counting(g, {2, 3});
  EXPECT_EQ(slice(x, 1, 2, 2).dims(), (shape{2, 0}));
  EXPECT_TRUE(run_once(slice(x, 1, 2, 2)).empty());
  EXPECT_EQ(run_once(slice(x, 1, 0, 3)), run_once(x));
}

TEST(Slice, HasAGradientThatIsZeroElsewhere) {
  graph g;
  const value x = x_of(g, {3, 4, 2});
  for (std::size_t axis = 0; axis < 3; ++axis) expect_gradients(slice(x, axis, 1, 2), {x});
  expect_gradients(slice(x * x, 1, 1, 3), {x});
}

TEST(Slice, NamesTheLineAndTheRange) {
  graph g;
  const value x = x_of(g, {2, 3});
  const std::string line = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { slice(x, 1, 2, 4); };
  EXPECT_THAT(wrong, ThrowsMessage<graph_error>(AllOf(HasSubstr("slicing_test.cpp:" + line),
                                                      HasSubstr("slice(float32 2x3)"),
                                                      HasSubstr("range 2 to 4 does not lie in extent 3"))));
  EXPECT_THAT([&] { slice(x, 1, 2, 1); }, ThrowsMessage<graph_error>(HasSubstr("range 2 to 1")));
  EXPECT_THAT([&] { slice(x, 2, 0, 1); }, ThrowsMessage<graph_error>(HasSubstr("there is no axis 2")));
}

TEST(Split, GivesPartsThatFollowOneAnother) {
  graph g;
  const auto parts = split(counting(g, {2, 5}), 1, {2, 0, 3});
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_THAT(run_once(parts[0]), ElementsAre(0, 1, 5, 6));
  EXPECT_TRUE(run_once(parts[1]).empty());
  EXPECT_THAT(run_once(parts[2]), ElementsAre(2, 3, 4, 7, 8, 9));
}

TEST(Split, HasAGradientThroughEachPart) {
  graph g;
  const value x = x_of(g, {3, 6});
  const auto parts = split(x, 1, {2, 2, 2});
  expect_gradients(parts[0] * parts[1] + parts[2], {x});
}

TEST(Split, HasAZeroGradientWhereAPartIsNotUsed) {
  graph g;
  const value x = x_of(g, {3, 6});
  const auto parts = split(x * x, 1, {1, 4, 1});
  expect_gradients(parts[1], {x});
}

TEST(Split, WantsAllOfTheAxis) {
  graph g;
  const value x = x_of(g, {2, 5});
  EXPECT_THAT(
      [&] {
        split(x, 1, {2, 2});
      },
      ThrowsMessage<graph_error>(HasSubstr("lengths 2, 2 do not add up to extent 5")));
}

TEST(Concat, PutsPartsOneAfterTheOther) {
  graph g;
  const std::array parts{counting(g, {2, 2}), counting(g, {2, 1}), counting(g, {2, 0})};
  const value y = concat(parts, 1);
  EXPECT_EQ(y.dims(), (shape{2, 3}));
  EXPECT_THAT(run_once(y), ElementsAre(0, 1, 0, 2, 3, 1));
  EXPECT_THAT(run_once(concat(std::array{counting(g, {1, 2}), counting(g, {2, 2})}, 0)),
              ElementsAre(0, 1, 0, 1, 2, 3));
}

TEST(Concat, UndoesSplit) {
  graph g;
  const value x = x_of(g, {3, 4, 5});
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::size_t rest = x.dims()[axis] - 1;
    EXPECT_EQ(run_once(concat(split(x, axis, {1, rest}), axis)), run_once(x)) << "axis " << axis;
  }
}

TEST(Concat, HasAGradientForEachPart) {
  graph g;
  const value x = x_of(g, {2, 3});
  const value y = g.variable("y", {2, 1}, initialiser::uniform(-1, 1));
  expect_gradients(concat(std::array{x, y, x}, 1), {x, y});
}

TEST(Concat, NamesTheLineAndTheShapes) {
  graph g;
  const std::array parts{x_of(g, {2, 3}), g.input("y", {3, 3})};
  const std::string line = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { concat(parts, 1); };
  EXPECT_THAT(wrong, ThrowsMessage<graph_error>(AllOf(HasSubstr("slicing_test.cpp:" + line),
                                                      HasSubstr("concat(float32 2x3, float32 3x3)"),
                                                      HasSubstr("differ in more than axis 1"))));
  EXPECT_THAT([&] { concat({}, 1); }, ThrowsMessage<graph_error>(HasSubstr("nothing to put together")));
}

TEST(Stack, MakesAnAxis) {
  graph g;
  const std::array parts{counting(g, {3}), counting(g, {3})};
  EXPECT_EQ(stack(parts, 0).dims(), (shape{2, 3}));
  EXPECT_THAT(run_once(stack(parts, 0)), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_EQ(stack(parts, 1).dims(), (shape{3, 2}));
  EXPECT_THAT(run_once(stack(parts, 1)), ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST(Stack, MakesARowOfScalars) {
  graph g;
  EXPECT_THAT(run_once(stack(std::array{g.constant(3.0F), g.constant(4.0F)}, 0)), ElementsAre(3, 4));
}

TEST(Stack, HasAGradient) {
  graph g;
  const value x = x_of(g, {2, 3});
  const value y = g.variable("y", {2, 3}, initialiser::uniform(-1, 1));
  for (std::size_t axis = 0; axis < 3; ++axis) expect_gradients(stack(std::array{x, y}, axis), {x, y});
}

TEST(Stack, WantsOneShape) {
  graph g;
  const std::array parts{x_of(g, {2, 3}), g.input("y", {3, 2})};
  EXPECT_THAT([&] { stack(parts, 0); }, ThrowsMessage<graph_error>(HasSubstr("shapes differ")));
  EXPECT_THAT([&] { stack(parts, 7); }, ThrowsMessage<graph_error>(HasSubstr("there is no axis 7")));
}

} // namespace
} // namespace mailgrad
