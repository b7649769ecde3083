#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

namespace mailgrad {
namespace {

using test::drawn_variable, test::expect_gradients, test::is_refused, test::is_refused_here,
    test::random_tensor, test::run_once;
using testing::ElementsAre, testing::FloatNear;

using ReduceSum = test::operation_test;

TEST_F(ReduceSum, SumsEverythingWithoutAList) {
  const value x = numbers({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(reduce_sum(x).dims(), shape{});
  EXPECT_THAT(run_once(reduce_sum(x)), ElementsAre(21));
}

TEST_F(ReduceSum, DropsOrKeepsTheAxes) {
  const value x = numbers({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(reduce_sum(x, {0}).dims(), shape{3});
  EXPECT_EQ(reduce_sum(x, {0}, summed_axes::kept_as_one).dims(), (shape{1, 3}));
  EXPECT_THAT(run_once(reduce_sum(x, {0})), ElementsAre(5, 7, 9));
  EXPECT_THAT(run_once(reduce_sum(x, {1})), ElementsAre(6, 15));
  EXPECT_THAT(run_once(reduce_sum(x, {1, 0})), ElementsAre(21));
  EXPECT_THAT(run_once(reduce_sum(x, std::vector<std::size_t>{})), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(ReduceSum, SumsAnyAxesOfFour) {
  const shape dims{3, 2, 4, 5};
  const tensor x = random_tensor(dims, 1);
  for (unsigned mask = 0; mask < 16; ++mask) {
    std::vector<std::size_t> axes;
    for (std::size_t axis = 0; axis < 4; ++axis)
      if (mask >> axis & 1U) axes.push_back(axis);
    graph fresh;
    const value y = reduce_sum(fresh.constant(random_tensor(dims, 1)), axes, summed_axes::kept_as_one);
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

TEST_F(ReduceSum, KeepsItsBitsOverALongRow) {
  tensor ones{{1000003}};
  std::ranges::fill(ones.values(), 0.1F);
  EXPECT_THAT(run_once(reduce_sum(g.constant(std::move(ones)))), ElementsAre(FloatNear(100000.3F, 0.2F)));
}

TEST_F(ReduceSum, OfNothingIsZero) {
  EXPECT_THAT(run_once(reduce_sum(g.constant(tensor{{0, 3}}), {0})), ElementsAre(0, 0, 0));
}

TEST_F(ReduceSum, NamesTheAxisThatIsNotThere) {
  const value x = g.constant(tensor{{2, 3}});
  EXPECT_THAT([&] { reduce_sum(x, {2}); }, is_refused_here("reduce_sum(float32 2x3)", "there is no axis 2"));
  EXPECT_THAT([&] { reduce_sum(x, {1, 1}); }, is_refused("listed twice"));
}

using ReduceMean = test::operation_test;

TEST_F(ReduceMean, DividesByWhatWasSummed) {
  const value x = numbers({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(run_once(reduce_mean(x)), ElementsAre(4.5F));
  EXPECT_THAT(run_once(reduce_mean(x, {0})), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(run_once(reduce_mean(x, {1})), ElementsAre(2.5F, 6.5F));
}

TEST(Reductions, HaveTheGradientsOfCentralDifferences) {
  graph g;
  const value x = drawn_variable(g, "x", {2, 3, 4});
  expect_gradients(reduce_sum(x), {x});
  expect_gradients(reduce_sum(x, {1}), {x});
  expect_gradients(reduce_sum(x, {0, 2}, summed_axes::kept_as_one), {x});
  expect_gradients(reduce_mean(x), {x});
  expect_gradients(reduce_mean(x, {2, 1}), {x});
}

using BroadcastTo = test::operation_test;

TEST_F(BroadcastTo, RepeatsAndSumToSumsBack) {
  const value x = drawn("x", {2, 1}), wide = broadcast_to(x, {3, 2, 4});
  const auto few = run_once(x), many = run_once(wide), back = run_once(sum_to(wide, {2, 1}));
  for (std::size_t i = 0; i < many.size(); ++i) EXPECT_EQ(many[i], few[i / 4 % 2]);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(back[i], 12 * few[i], 1e-5);
  expect_gradients(wide, {x});
  expect_gradients(sum_to(wide * wide, {4}), {x});
}

TEST_F(BroadcastTo, RefusesWhatDoesNotFit) {
  const value x = g.constant(tensor{{2, 3}});
  EXPECT_THAT([&] { broadcast_to(x, {2, 4}); }, is_refused("extents 3 and 4 differ"));
  EXPECT_THAT([&] { broadcast_to(x, {3}); }, is_refused("cannot be repeated to 3"));
  EXPECT_THAT([&] { sum_to(x, {2}); }, is_refused("sum_to(float32 2x3)"));
}

using MeanSquaredError = test::operation_test;

TEST_F(MeanSquaredError, IsTheMeanOfTheSquares) {
  const value a = numbers({2, 2}, {1, 2, 3, 4}), b = numbers({2, 2}, {1, 4, 0, 4});
  EXPECT_THAT(run_once(mean_squared_error(a, b)), ElementsAre(13 / 4.0F));
}

TEST_F(MeanSquaredError, HasTheGradientsOfCentralDifferences) {
  const value a = drawn("a", {3, 15}), b = drawn("b", {3, 15});
  expect_gradients(mean_squared_error(a, b), {a, b});
}

TEST_F(MeanSquaredError, RepeatsNothing) {
  const value row = g.constant(tensor{{3}}), column = g.constant(tensor{{3, 1}});
  EXPECT_THAT([&] { mean_squared_error(row, column); }, is_refused("the shapes differ"));
}

} // namespace
} // namespace mailgrad
