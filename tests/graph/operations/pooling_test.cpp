#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace mailgrad {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Distinct values in random order, so far apart that a difference quotient meets no kink.
tensor distinct_values(const shape& dims) {
  tensor made(dims);
  const auto v = made.values();
  std::iota(v.begin(), v.end(), 0.0F);
  std::shuffle(v.begin(), v.end(), std::mt19937_64(5));
  for (float& each : v) each = 0.05F * each - 1;
  return made;
}

TEST(MaxPool, TakesTheLargestOfTwoByTwoByDefault) {
  graph g;
  const value x = g.input("x", {1, 2, 4, 1});
  const tensor values = test::tensor_of({1, 2, 4, 1}, std::vector<float>{1, 2, -3, -4, 4, 3, -1, -2});
  EXPECT_THAT(test::run_once(max_pool(x), {{x, values}}), ElementsAre(4, -1));
}

TEST(AveragePool, LeavesPaddingOut) {
  graph g;
  const value x = g.input("x", {1, 2, 2, 1});
  const tensor values = test::tensor_of({1, 2, 2, 1}, std::vector<float>{1, 2, 3, 4});
  const value y = average_pool(x, {.window = {2, 2}, .stride = {1, 1}, .pad = padding::same()});
  EXPECT_THAT(test::run_once(y, {{x, values}}), ElementsAre(2.5F, 3, 3.5F, 4));
}

TEST(MaxPool, OfEqualValuesTheFirstGetsTheGradient) {
  graph g;
  const value x = g.input("x", {1, 2, 2, 1});
  const std::vector<value> sources{x};
  const auto dx = gradients(reduce_sum(max_pool(x)), sources).front();
  const tensor values = test::tensor_of({1, 2, 2, 1}, std::vector<float>{0, 7, 7, 7});
  EXPECT_THAT(test::run_once(*dx.dense, {{x, values}}), ElementsAre(0, 1, 0, 0));
}

/// Images and windows whose gradients are checked.
struct checked_pooling {
  shape x;
  pooling_options options;
};

class PoolingGradient : public testing::TestWithParam<checked_pooling> {};

TEST_P(PoolingGradient, OfTheMaximumEqualsCentralDifferences) {
  graph g;
  const value x = g.input("x", GetParam().x);
  test::expect_gradients(max_pool(x, GetParam().options), {x}, {{x, distinct_values(x.dims())}});
}

TEST_P(PoolingGradient, OfTheMeanEqualsCentralDifferences) {
  graph g;
  const value x = g.input("x", GetParam().x);
  test::expect_gradients(average_pool(x, GetParam().options), {x}, {{x, distinct_values(x.dims())}});
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PoolingGradient,
    testing::Values(checked_pooling{{1, 1, 1, 1}, {{1, 1}, {1, 1}}}, checked_pooling{{2, 4, 6, 3}, {}},
                    checked_pooling{{1, 5, 7, 9}, {}}, // a row and a column left over
                    checked_pooling{{2, 5, 5, 2}, {{3, 3}, {2, 2}, padding::same()}},   // overlapping, padded
                    checked_pooling{{1, 5, 5, 2}, {{3, 2}, {1, 1}, padding::of(2, 1)}}, // mostly padding
                    checked_pooling{{2, 7, 7, 1}, {{2, 2}, {3, 4}}},                    // gaps
                    checked_pooling{{2, 3, 4, 8}, {{3, 4}, {1, 1}}}));                  // the whole image

TEST(Pooling, NamesTheLineAndTheShapesThatDoNotFit) {
  graph g;
  const value x = g.input("x", {2, 3, 3, 1});
  EXPECT_THAT(
      [&] {
        max_pool(x, {.window = {4, 2}});
      },
      ThrowsMessage<graph_error>(AllOf(HasSubstr("pooling_test.cpp:"), HasSubstr("max_pool(float32 2x3x3x1)"),
                                       HasSubstr("a window of 4 rows does not fit into 3"))));
  EXPECT_THAT([&] { average_pool(x, {.pad = padding::of(0, 2)}); },
              ThrowsMessage<graph_error>(HasSubstr("2 columns of padding need a window of more than 2")));
  EXPECT_THAT(
      [&] {
        average_pool(g.input("flat", {2, 9}));
      },
      ThrowsMessage<graph_error>(HasSubstr("not of rank 2")));
  EXPECT_THAT(
      [&] {
        max_pool(g.input("labels", {2, 3, 3, 1}, dtype::int32));
      },
      ThrowsMessage<graph_error>(HasSubstr("float32")));
}

TEST(Pooling, KeepsAnEmptyBatchEmpty) {
  graph g;
  const value x = g.input("x", {0, 4, 4, 2});
  EXPECT_EQ(max_pool(x).dims(), (shape{0, 2, 2, 2}));
  EXPECT_TRUE(test::run_once(max_pool(x), {{x, tensor(x.dims())}}).empty());
}

} // namespace
} // namespace mailgrad
