#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Convolution, IsACrossCorrelation) {
  graph g;
  const value x = g.input("x", {1, 2, 3, 1});
  const value w = g.input("w", {2, 2, 1, 1});
  const value y = conv2d(x, w, {.pad = padding::valid()});
  const auto found =
      test::run_once(y, {{x, test::tensor_of({1, 2, 3, 1}, std::vector<float>{1, 2, 3, 4, 5, 6})},
                         {w, test::tensor_of({2, 2, 1, 1}, std::vector<float>{1, 10, 100, 1000})}});
  EXPECT_THAT(found, ElementsAre(1 + 20 + 400 + 5000, 2 + 30 + 500 + 6000));
}

TEST(Convolution, PaddingSameKeepsTheExtents) {
  graph g;
  const value x = g.input("x", {2, 5, 7, 3});
  EXPECT_EQ(conv2d(x, g.input("odd", {3, 5, 3, 4})).dims(), (shape{2, 5, 7, 4}));
  EXPECT_EQ(conv2d(x, g.input("even", {2, 4, 3, 4})).dims(), (shape{2, 5, 7, 4}));
}

TEST(Convolution, PaddingSameRoundsUpTheExtentsOverTheStride) {
  graph g;
  const value x = g.input("x", {2, 5, 8, 3});
  const value w = g.input("w", {3, 3, 3, 4});
  EXPECT_EQ(conv2d(x, w, {.stride = {2, 3}}).dims(), (shape{2, 3, 3, 4}));
}

TEST(Convolution, TheOddRowOfPaddingSameGoesBelow) {
  graph g;
  const value x = g.input("x", {1, 2, 1, 1});
  const value w = g.input("w", {2, 1, 1, 1});
  const auto found =
      test::run_once(conv2d(x, w), {{x, test::tensor_of({1, 2, 1, 1}, std::vector<float>{1, 2})},
                                    {w, test::tensor_of({2, 1, 1, 1}, std::vector<float>{1, 10})}});
  EXPECT_THAT(found, ElementsAre(21, 2));
}

TEST(Convolution, GivenPaddingMayDifferOnEachSide) {
  graph g;
  const value x = g.input("x", {1, 4, 4, 1});
  const value w = g.input("w", {3, 3, 1, 2});
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
  const value x = g.variable("x", GetParam().x, initialiser::uniform(-1, 1));
  const value w = g.variable("w", GetParam().w, initialiser::uniform(-1, 1));
  test::expect_gradients(conv2d(x, w, GetParam().options), {x, w});
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

TEST(Convolution, AnEmptyBatchHasAGradientOfZero) {
  graph g;
  const value x = g.input("x", {0, 4, 4, 2});
  const value w = g.variable("w", {3, 3, 2, 2}, initialiser::uniform(-1, 1));
  test::expect_gradients(conv2d(x, w), {x, w}, {{x, tensor({0, 4, 4, 2})}});
}

TEST(Convolution, DescribesItsWindows) {
  graph g;
  const value x = g.input("x", {1, 4, 4, 1});
  const value w = g.input("w", {3, 3, 1, 2});
  const auto words = [&](const value& y) { return std::get<operation_node>(g.of(y).what)->describe(); };
  EXPECT_EQ(words(conv2d(x, w)), "stride 1x1, padding same");
  EXPECT_EQ(words(conv2d(x, w, {{2, 3}, padding::valid()})), "stride 2x3, padding valid");
  EXPECT_EQ(words(conv2d(x, w, {{1, 1}, {padding::rule::given, {2, 0}, {1, 1}}})),
            "stride 1x1, padding 2+1 0+1");
}

TEST(Convolution, NamesTheLineAndTheShapesThatDoNotFit) {
  graph g;
  const value x = g.input("x", {2, 5, 5, 3});
  const value w = g.input("w", {3, 3, 4, 8});
  EXPECT_THAT([&] { conv2d(x, w); },
              ThrowsMessage<graph_error>(AllOf(HasSubstr("convolution_test.cpp:"),
                                               HasSubstr("conv2d(float32 2x5x5x3, float32 3x3x4x8)"),
                                               HasSubstr("images of 3 channels against weights for 4"))));
}

TEST(Convolution, RefusesWhatIsNoImageOrNoKernel) {
  graph g;
  const value x = g.input("x", {2, 5, 5, 3});
  const value w = g.input("w", {3, 3, 3, 8});
  const value flat = g.input("flat", {2, 75});
  const value nothing = g.input("nothing", {2, 0, 5, 3});
  const value labels = g.input("labels", {2, 5, 5, 3}, dtype::int32);
  const auto fails = [](auto f, const char* why) {
    EXPECT_THAT(f, ThrowsMessage<graph_error>(HasSubstr(why)));
  };
  fails([&] { conv2d(flat, w); }, "not of rank 2");
  fails([&] { conv2d(x, flat); }, "not of rank 2");
  fails([&] { conv2d(labels, w); }, "float32");
  fails([&] { conv2d(nothing, w); }, "no pixels");
  fails([&] { conv2d(x, w, {.stride = {1, 0}}); }, "a stride of 1x0");
  fails([&] { conv2d(x, g.input("empty", {0, 3, 3, 8})); }, "a window of 0x3");
}

TEST(Convolution, RefusesWindowsThatDoNotFit) {
  graph g;
  const value x = g.input("x", {2, 5, 4, 3});
  const value w = g.input("w", {5, 5, 3, 8});
  EXPECT_THAT([&] { conv2d(x, w, {.pad = padding::valid()}); },
              ThrowsMessage<graph_error>(HasSubstr("a window of 5 columns does not fit into 4")));
  EXPECT_THAT([&] { conv2d(x, w, {.pad = padding::of(5, 1)}); },
              ThrowsMessage<graph_error>(HasSubstr("5 rows of padding need a window of more than 5")));
}

} // namespace
} // namespace mailgrad
