#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

#include <numeric>

namespace mailgrad {
namespace {

using test::drawn_variable, test::expect_gradients, test::is_refused, test::is_refused_here, test::run_once;
using testing::ElementsAre;

using Convolution = test::operation_test;

TEST_F(Convolution, IsACrossCorrelation) {
  const value x = numbers({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6}), w = numbers({2, 2, 1, 1}, {1, 10, 100, 1000});
  const value y = conv2d(x, w, {.pad = padding::valid()});
  EXPECT_THAT(run_once(y), ElementsAre(1 + 20 + 400 + 5000, 2 + 30 + 500 + 6000));
}

TEST_F(Convolution, PaddingSameKeepsTheExtents) {
  const value x = g.input("x", {2, 5, 7, 3});
  EXPECT_EQ(conv2d(x, g.input("odd", {3, 5, 3, 4})).dims(), (shape{2, 5, 7, 4}));
  EXPECT_EQ(conv2d(x, g.input("even", {2, 4, 3, 4})).dims(), (shape{2, 5, 7, 4}));
}

TEST_F(Convolution, PaddingSameRoundsUpTheExtentsOverTheStride) {
  const value x = g.input("x", {2, 5, 8, 3}), w = g.input("w", {3, 3, 3, 4});
  EXPECT_EQ(conv2d(x, w, {.stride = {2, 3}}).dims(), (shape{2, 3, 3, 4}));
}

TEST_F(Convolution, TheOddRowOfPaddingSameGoesBelow) {
  EXPECT_THAT(run_once(conv2d(numbers({1, 2, 1, 1}, {1, 2}), numbers({2, 1, 1, 1}, {1, 10}))),
              ElementsAre(21, 2));
}

TEST_F(Convolution, GivenPaddingMayDifferOnEachSide) {
  const value x = g.input("x", {1, 4, 4, 1}), w = g.input("w", {3, 3, 1, 2});
  const padding uneven{padding::rule::given, {2, 0}, {0, 1}};
  EXPECT_EQ(conv2d(x, w, {.pad = uneven}).dims(), (shape{1, 4, 3, 2}));
}

/// Images, weights and options whose gradients are checked.
struct checked {
  shape x, w;
  convolution_options options;
};

class ConvolutionGradient : public testing::TestWithParam<checked> {};

TEST_P(ConvolutionGradient, EqualsCentralDifferences) {
  graph g;
  const value x = drawn_variable(g, "x", GetParam().x), w = drawn_variable(g, "w", GetParam().w);
  expect_gradients(conv2d(x, w, GetParam().options), {x, w});
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ConvolutionGradient,
    testing::Values(checked{{1, 1, 1, 1}, {1, 1, 1, 1}, {}},                            // the smallest
                    checked{{2, 5, 4, 1}, {5, 5, 1, 3}, {}},                            // one channel
                    checked{{2, 4, 5, 8}, {3, 3, 8, 4}, {}},                            // many
                    checked{{2, 4, 5, 9}, {1, 1, 9, 2}, {}},                            // 1x1
                    checked{{1, 6, 7, 8}, {3, 3, 8, 2}, {{2, 2}, padding::same()}},     // stride
                    checked{{1, 6, 7, 8}, {3, 2, 8, 2}, {{3, 2}, padding::valid()}},    // left over
                    checked{{1, 4, 4, 3}, {3, 3, 3, 2}, {{1, 1}, padding::of(2, 1)}})); // given

TEST_F(Convolution, AnEmptyBatchHasAGradientOfZero) {
  const value x = g.input("x", {0, 4, 4, 2}), w = drawn("w", {3, 3, 2, 2});
  expect_gradients(conv2d(x, w), {x, w}, {{x, tensor({0, 4, 4, 2})}});
}

TEST_F(Convolution, DescribesItsWindows) {
  const value x = g.input("x", {1, 4, 4, 1}), w = g.input("w", {3, 3, 1, 2});
  const auto words = [&](const value& y) { return std::get<operation_node>(g.of(y).what)->describe(); };
  EXPECT_EQ(words(conv2d(x, w)), "stride 1x1, padding same");
  EXPECT_EQ(words(conv2d(x, w, {{2, 3}, padding::valid()})), "stride 2x3, padding valid");
  EXPECT_EQ(words(conv2d(x, w, {{1, 1}, {padding::rule::given, {2, 0}, {1, 1}}})),
            "stride 1x1, padding 2+1 0+1");
}

TEST_F(Convolution, NamesTheLineAndTheShapesThatDoNotFit) {
  const value x = g.input("x", {2, 5, 5, 3}), w = g.input("w", {3, 3, 4, 8});
  EXPECT_THAT([&] { conv2d(x, w); }, is_refused_here("conv2d(float32 2x5x5x3, float32 3x3x4x8)",
                                                     "images of 3 channels against weights for 4"));
}

TEST_F(Convolution, RefusesWhatIsNoImageOrNoKernel) {
  const value x = g.input("x", {2, 5, 5, 3}), w = g.input("w", {3, 3, 3, 8});
  const value flat = g.input("flat", {2, 75}), nothing = g.input("nothing", {2, 0, 5, 3});
  const value labels = g.input("labels", {2, 5, 5, 3}, dtype::int32);
  const auto fails = [](auto f, const char* why) { EXPECT_THAT(f, is_refused(why)); };
  fails([&] { conv2d(flat, w); }, "not of rank 2");
  fails([&] { conv2d(x, flat); }, "not of rank 2");
  fails([&] { conv2d(labels, w); }, "float32");
  fails([&] { conv2d(nothing, w); }, "no pixels");
  fails([&] { conv2d(x, w, {.stride = {1, 0}}); }, "a stride of 1x0");
  fails([&] { conv2d(x, g.input("empty", {0, 3, 3, 8})); }, "a window of 0x3");
}

TEST_F(Convolution, RefusesWindowsThatDoNotFit) {
  const value x = g.input("x", {2, 5, 4, 3}), w = g.input("w", {5, 5, 3, 8});
  EXPECT_THAT([&] { conv2d(x, w, {.pad = padding::valid()}); },
              is_refused("a window of 5 columns does not fit into 4"));
  EXPECT_THAT([&] { conv2d(x, w, {.pad = padding::of(5, 1)}); },
              is_refused("5 rows of padding need a window of more than 5"));
}

/// Distinct values in random order, so far apart that a difference quotient meets no kink.
tensor distinct_values(const shape& dims) {
  tensor made(dims);
  const auto v = made.values();
  std::iota(v.begin(), v.end(), 0.0F);
  std::shuffle(v.begin(), v.end(), std::mt19937_64(5));
  for (float& each : v) each = 0.05F * each - 1;
  return made;
}

using MaxPool = test::operation_test;

TEST_F(MaxPool, TakesTheLargestOfTwoByTwoByDefault) {
  EXPECT_THAT(run_once(max_pool(numbers({1, 2, 4, 1}, {1, 2, -3, -4, 4, 3, -1, -2}))), ElementsAre(4, -1));
}

using AveragePool = test::operation_test;

TEST_F(AveragePool, LeavesPaddingOut) {
  const value y =
      average_pool(numbers({1, 2, 2, 1}, {1, 2, 3, 4}), {.stride = {1, 1}, .pad = padding::same()});
  EXPECT_THAT(run_once(y), ElementsAre(2.5F, 3, 3.5F, 4));
}

TEST_F(MaxPool, OfEqualValuesTheFirstGetsTheGradient) {
  const value x = numbers({1, 2, 2, 1}, {0, 7, 7, 7});
  const auto dx = gradients(reduce_sum(max_pool(x)), std::array{x}).front();
  EXPECT_THAT(run_once(*dx.dense), ElementsAre(0, 1, 0, 0));
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
  expect_gradients(max_pool(x, GetParam().options), {x}, {{x, distinct_values(x.dims())}});
}

TEST_P(PoolingGradient, OfTheMeanEqualsCentralDifferences) {
  graph g;
  const value x = g.input("x", GetParam().x);
  expect_gradients(average_pool(x, GetParam().options), {x}, {{x, distinct_values(x.dims())}});
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PoolingGradient,
    testing::Values(checked_pooling{{1, 1, 1, 1}, {{1, 1}, {1, 1}}}, checked_pooling{{2, 4, 6, 3}, {}},
                    checked_pooling{{1, 5, 7, 9}, {}}, // a row and a column left over
                    checked_pooling{{2, 5, 5, 2}, {{3, 3}, {2, 2}, padding::same()}},   // overlapping, padded
                    checked_pooling{{1, 5, 5, 2}, {{3, 2}, {1, 1}, padding::of(2, 1)}}, // mostly padding
                    checked_pooling{{2, 7, 7, 1}, {{2, 2}, {3, 4}}},                    // gaps
                    checked_pooling{{2, 3, 4, 8}, {{3, 4}, {1, 1}}}));                  // the whole image

using Pooling = test::operation_test;

TEST_F(Pooling, NamesTheLineAndTheShapesThatDoNotFit) {
  const value x = g.input("x", {2, 3, 3, 1});
  const pooling_options tall{.window = {4, 2}};
  EXPECT_THAT([&] { max_pool(x, tall); },
              is_refused_here("max_pool(float32 2x3x3x1)", "a window of 4 rows does not fit into 3"));
  EXPECT_THAT([&] { average_pool(x, {.pad = padding::of(0, 2)}); },
              is_refused("2 columns of padding need a window of more than 2"));
  EXPECT_THAT([&] { average_pool(g.input("flat", {2, 9})); }, is_refused("not of rank 2"));
  EXPECT_THAT([&] { max_pool(g.input("labels", {2, 3, 3, 1}, dtype::int32)); }, is_refused("float32"));
}

TEST_F(Pooling, KeepsAnEmptyBatchEmpty) {
  const value x = g.input("x", {0, 4, 4, 2});
  EXPECT_EQ(max_pool(x).dims(), (shape{0, 2, 2, 2}));
  EXPECT_TRUE(run_once(max_pool(x), {{x, tensor(x.dims())}}).empty());
}

} // namespace
} // namespace mailgrad
