#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::random_tensor;
using test::run_once;
using test::tensor_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ReduceSum, SumsEverythingWithoutAList) {
  graph g;
  const value x = g.constant(tensor_of({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(reduce_sum(x).dims(), shape{});
  EXPECT_THAT(run_once(reduce_sum(x)), ElementsAre(21));
}

TEST(ReduceSum, DropsOrKeepsTheAxes) {
  graph g;
  const value x = g.constant(tensor_of({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(reduce_sum(x, {0}).dims(), shape{3});
  EXPECT_EQ(reduce_sum(x, {0}, summed_axes::kept_as_one).dims(), (shape{1, 3}));
  EXPECT_THAT(run_once(reduce_sum(x, {0})), ElementsAre(5, 7, 9));
  EXPECT_THAT(run_once(reduce_sum(x, {1})), ElementsAre(6, 15));
  EXPECT_THAT(run_once(reduce_sum(x, {1, 0})), ElementsAre(21));
  EXPECT_THAT(run_once(reduce_sum(x, std::vector<std::size_t>{})), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(ReduceSum, SumsAnyAxesOfFour) {
  const shape dims{3, 2, 4, 5};
  const tensor x = random_tensor(dims, 1);
  for (unsigned mask = 0; mask < 16; ++mask) {
    std::vector<std::size_t> axes;
    for (std::size_t axis = 0; axis < 4; ++axis)
      if (mask >> axis & 1U) axes.push_back(axis);
    graph g;
    const value y = reduce_sum(g.constant(random_tensor(dims, 1)), axes, summed_axes::kept_as_one);
    std::vector<double> expected(y.dims().size(), 0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t index[] = {i / 40, i / 20 % 2, i / 5 % 4, i % 5};
      std::size_t to = 0;
      for (std::size_t axis = 0; axis < 4; ++axis)
        to = to * y.dims()[axis] + (y.dims()[axis] == 1 ? 0 : index[axis]);
      expected[to] += static_cast<double>(x.values()[i]);
    }
    EXPECT_THAT(run_once(y), testing::Pointwise(testing::DoubleNear(1e-5), expected)) << "mask " << mask;
  }
}

TEST(ReduceSum, KeepsItsBitsOverALongRow) {
  graph g;
  tensor ones{{1000003}};
  std::ranges::fill(ones.values(), 0.1F);
  EXPECT_THAT(run_once(reduce_sum(g.constant(std::move(ones)))), ElementsAre(FloatNear(100000.3F, 0.2F)));
}

TEST(ReduceSum, OfNothingIsZero) {
  graph g;
  EXPECT_THAT(run_once(reduce_sum(g.constant(tensor{{0, 3}}), {0})), ElementsAre(0, 0, 0));
}

TEST(ReduceSum, NamesTheAxisThatIsNotThere) {
  graph g;
  const value x = g.constant(tensor{{2, 3}});
  const auto line = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { reduce_sum(x, {2}); };
  EXPECT_THAT(wrong, ThrowsMessage<graph_error>(AllOf(HasSubstr("reductions_test.cpp:" + line),
                                                      HasSubstr("reduce_sum(float32 2x3)"),
                                                      HasSubstr("there is no axis 2"))));
  EXPECT_THAT([&] { reduce_sum(x, {1, 1}); }, ThrowsMessage<graph_error>(HasSubstr("listed twice")));
}

TEST(ReduceMean, DividesByWhatWasSummed) {
  graph g;
  const value x = g.constant(tensor_of({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_THAT(run_once(reduce_mean(x)), ElementsAre(4.5F));
  EXPECT_THAT(run_once(reduce_mean(x, {0})), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(run_once(reduce_mean(x, {1})), ElementsAre(2.5F, 6.5F));
}

TEST(Reductions, HaveTheGradientsOfCentralDifferences) {
  graph g;
  const value x = g.variable("x", {2, 3, 4}, initialiser::uniform(-1, 1));
  expect_gradients(reduce_sum(x), {x});
  expect_gradients(reduce_sum(x, {1}), {x});
  expect_gradients(reduce_sum(x, {0, 2}, summed_axes::kept_as_one), {x});
  expect_gradients(reduce_mean(x), {x});
  expect_gradients(reduce_mean(x, {2, 1}), {x});
}

TEST(BroadcastTo, RepeatsAndSumToSumsBack) {
  graph g;
  const value x = g.variable("x", {2, 1}, initialiser::uniform(-1, 1));
  const value wide = broadcast_to(x, {3, 2, 4});
  const auto few = run_once(x), many = run_once(wide), back = run_once(sum_to(wide, {2, 1}));
  for (std::size_t i = 0; i < many.size(); ++i) EXPECT_EQ(many[i], few[i / 4 % 2]);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(back[i], 12 * few[i], 1e-5);
  expect_gradients(wide, {x});
  expect_gradients(sum_to(wide * wide, {4}), {x});
}

TEST(BroadcastTo, RefusesWhatDoesNotFit) {
  graph g;
  const value x = g.constant(tensor{{2, 3}});
  EXPECT_THAT(
      [&] {
        broadcast_to(x, {2, 4});
      },
      ThrowsMessage<graph_error>(HasSubstr("extents 3 and 4 differ")));
  EXPECT_THAT([&] { broadcast_to(x, {3}); },
              ThrowsMessage<graph_error>(HasSubstr("cannot be repeated to 3")));
  EXPECT_THAT([&] { sum_to(x, {2}); }, ThrowsMessage<graph_error>(HasSubstr("sum_to(float32 2x3)")));
}

TEST(MeanSquaredError, IsTheMeanOfTheSquares) {
  graph g;
  const value a = g.constant(tensor_of({2, 2}, {1, 2, 3, 4})),
              b = g.constant(tensor_of({2, 2}, {1, 4, 0, 4}));
  EXPECT_THAT(run_once(mean_squared_error(a, b)), ElementsAre(13 / 4.0F));
}

TEST(MeanSquaredError, HasTheGradientsOfCentralDifferences) {
  graph g;
  const value a = g.variable("a", {3, 15}, initialiser::uniform(-1, 1));
  const value b = g.variable("b", {3, 15}, initialiser::uniform(-1, 1));
  expect_gradients(mean_squared_error(a, b), {a, b});
}

TEST(MeanSquaredError, RepeatsNothing) {
  graph g;
  EXPECT_THAT(
      [&] {
        mean_squared_error(g.constant(tensor{{3}}), g.constant(tensor{{3, 1}}));
      },
      ThrowsMessage<graph_error>(HasSubstr("the shapes differ")));
}

} // namespace
} // namespace mailgrad
