#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::random_tensor;
using test::run_once;
using test::tensor_of;
using testing::ElementsAre;

TEST(PairwiseDots, MultipliesEachTwoVectorsOfASample) {
  graph g;
  const value y = pairwise_dots(g.constant(tensor_of({2, 3, 2}, {1, 2, 3, 4, 5, 6, 1, 0, 0, 1, 2, 2})));
  EXPECT_EQ(y.dims(), (shape{2, 3}));
  EXPECT_THAT(run_once(y), ElementsAre(11, 17, 39, 0, 2, 2));
}

TEST(PairwiseDots, AgreesWithALoopOnWidthsThatFillNoVector) {
  for (const std::size_t width : {1U, 16U, 19U}) {
    graph g;
    const tensor x = random_tensor({3, 5, width}, width);
    const std::vector<float> y = run_once(pairwise_dots(g.constant(test::copy_of(x))));
    const auto at = [&](std::size_t s, std::size_t v, std::size_t c) {
      return static_cast<double>(x.values()[(s * 5 + v) * width + c]);
    };
    std::size_t place = 0;
    for (std::size_t s = 0; s < 3; ++s)
      for (std::size_t i = 1; i < 5; ++i)
        for (std::size_t j = 0; j < i; ++j) {
          double sum = 0;
          for (std::size_t c = 0; c < width; ++c) sum += at(s, i, c) * at(s, j, c);
          EXPECT_NEAR(y[place++], sum, 1e-5);
        }
    EXPECT_EQ(place, y.size());
  }
}

TEST(PairwiseDots, HasTheGradientOfItsFormula) {
  graph g;
  const value x = g.variable("x", {2, 4, 3}, initialiser::uniform(-1, 1));
  expect_gradients(pairwise_dots(x), {x});
}

TEST(PairwiseDots, RefusesWhatAreNoTwoVectors) {
  graph g;
  EXPECT_THROW(pairwise_dots(g.input("a", {2, 1, 3})), graph_error);
  EXPECT_THROW(pairwise_dots(g.input("b", {2, 3})), graph_error);
  EXPECT_THROW(pairwise_dots(g.input("c", {2, 2, 3}, dtype::int32)), graph_error);
}

} // namespace
} // namespace mailgrad
