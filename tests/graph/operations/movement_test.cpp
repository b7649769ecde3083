#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

#include <Eigen/Core>

#include <array>
#include <numeric>

namespace mailgrad {
namespace {

using test::expect_gradients, test::is_refused, test::is_refused_here, test::random_tensor, test::run_once,
    test::tensor_of;
using testing::ElementsAre, testing::ElementsAreArray;

std::vector<float> counting(std::size_t n) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), 0.0F);
  return v;
}

using Reshape = test::operation_test;

TEST_F(Reshape, KeepsElementsInOrder) {
  const value y = reshape(numbers({2, 3}, counting(6)), {3, 2, 1});
  EXPECT_EQ(y.dims(), (shape{3, 2, 1}));
  EXPECT_THAT(run_once(y), ElementsAreArray(counting(6)));
}

TEST_F(Reshape, RunsNoKernel) {
  EXPECT_EQ(program(g, {{reshape(drawn("x", {2, 3}) + 1, {6})}}).kernel_count(), 1U);
}

TEST_F(Reshape, KeepsTheElementType) {
  EXPECT_EQ(reshape(g.input("n", {6}, dtype::int32), {2, 3}).type(), (value_type{{2, 3}, dtype::int32}));
}

TEST_F(Reshape, PassesItsGradientOn) {
  const value x = drawn("x", {2, 6});
  expect_gradients(reshape(reshape(x * x, {3, 4}), {12}), {x});
  expect_gradients(reshape(x, {12}), {x});
}

TEST_F(Reshape, NamesTheLineAndTheShapes) {
  const value x = drawn("x", {2, 3});
  EXPECT_THAT([&] { reshape(x, {4}); }, is_refused_here("reshape(float32 2x3)", "6 elements do not make 4"));
}

using Squeeze = test::operation_test;

TEST_F(Squeeze, DropsAnAxisOfOne) {
  const value x = drawn("x", {2, 1, 3});
  EXPECT_EQ(squeeze(x, 1).dims(), (shape{2, 3}));
  EXPECT_EQ(run_once(squeeze(x, 1)), run_once(x));
  EXPECT_EQ(squeeze(drawn("x", {2, 1, 3}), 1).dims(), (shape{2, 3}));
  expect_gradients(squeeze(x * x, 1), {x});
}

TEST_F(Squeeze, RefusesAnAxisOfMore) {
  const value x = drawn("x", {2, 1});
  EXPECT_THAT([&] { squeeze(x, 0); }, is_refused("axis 0 has extent 2, not 1"));
  EXPECT_THAT([&] { squeeze(x, 2); }, is_refused("there is no axis 2"));
}

using Transpose = test::operation_test;

TEST_F(Transpose, AgreesWithEigen) {
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  for (const auto& [rows, columns] : {std::pair{1, 1}, {1, 7}, {9, 1}, {17, 33}}) {
    graph fresh;
    tensor x = random_tensor({static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)}, 3);
    const matrix expected = Eigen::Map<const matrix>(x.values().data(), rows, columns).transpose();
    EXPECT_THAT(run_once(transpose(fresh.constant(std::move(x)))),
                ElementsAreArray(expected.data(), static_cast<std::size_t>(expected.size())));
  }
}

TEST_F(Transpose, PutsTheAxesInTheOrderAsked) {
  const value y = transpose(numbers({2, 2, 3}, counting(12)), {1, 2, 0});
  EXPECT_EQ(y.dims(), (shape{2, 3, 2}));
  EXPECT_THAT(run_once(y), ElementsAre(0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11));
}

TEST_F(Transpose, HasAGradient) {
  const value x = drawn("x", {2, 3, 4});
  expect_gradients(transpose(x, {2, 0, 1}), {x});
  expect_gradients(transpose(x * x), {x});
}

TEST_F(Transpose, OfAScalarIsTheScalar) {
  EXPECT_THAT(run_once(transpose(g.constant(4.0F))), ElementsAre(4));
}

TEST_F(Transpose, WantsEachAxisOnce) {
  const value x = drawn("x", {2, 3});
  EXPECT_THAT([&] { transpose(x, {0, 0}); }, is_refused("the order (0, 0) does not name each axis once"));
  EXPECT_THAT([&] { transpose(x, {0}); }, is_refused("does not name each axis"));
}

value counting(graph& g, const shape& dims) { return g.constant(tensor_of(dims, counting(dims.size()))); }

using Slice = test::operation_test;

TEST_F(Slice, CutsAlongAnyAxis) {
  const value x = counting(g, {2, 3, 2});
  EXPECT_THAT(run_once(slice(x, 0, 1, 2)), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(run_once(slice(x, 1, 1, 3)), ElementsAre(2, 3, 4, 5, 8, 9, 10, 11));
  EXPECT_THAT(run_once(slice(x, 2, 0, 1)), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_EQ(slice(x, 1, 1, 3).dims(), (shape{2, 2, 2}));
}

TEST_F(Slice, MayBeEmptyOrAll) {
  const value x = counting(g, {2, 3});
  EXPECT_EQ(slice(x, 1, 2, 2).dims(), (shape{2, 0}));
  EXPECT_TRUE(run_once(slice(x, 1, 2, 2)).empty());
  EXPECT_EQ(run_once(slice(x, 1, 0, 3)), run_once(x));
}

TEST_F(Slice, HasAGradientThatIsZeroElsewhere) {
  const value x = drawn("x", {3, 4, 2});
  for (std::size_t axis = 0; axis < 3; ++axis) expect_gradients(slice(x, axis, 1, 2), {x});
  expect_gradients(slice(x * x, 1, 1, 3), {x});
}

TEST_F(Slice, NamesTheLineAndTheRange) {
  const value x = drawn("x", {2, 3});
  EXPECT_THAT([&] { slice(x, 1, 2, 4); },
              is_refused_here("slice(float32 2x3)", "range 2 to 4 does not lie in extent 3"));
  EXPECT_THAT([&] { slice(x, 1, 2, 1); }, is_refused("range 2 to 1"));
  EXPECT_THAT([&] { slice(x, 2, 0, 1); }, is_refused("there is no axis 2"));
}

using Split = test::operation_test;

TEST_F(Split, GivesPartsThatFollowOneAnother) {
  const auto parts = split(counting(g, {2, 5}), 1, {2, 0, 3});
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_THAT(run_once(parts[0]), ElementsAre(0, 1, 5, 6));
  EXPECT_TRUE(run_once(parts[1]).empty());
  EXPECT_THAT(run_once(parts[2]), ElementsAre(2, 3, 4, 7, 8, 9));
}

TEST_F(Split, HasAGradientThroughEachPart) {
  const value x = drawn("x", {3, 6});
  const auto parts = split(x, 1, {2, 2, 2});
  expect_gradients(parts[0] * parts[1] + parts[2], {x});
}

TEST_F(Split, HasAZeroGradientWhereAPartIsNotUsed) {
  const value x = drawn("x", {3, 6});
  const auto parts = split(x * x, 1, {1, 4, 1});
  expect_gradients(parts[1], {x});
}

TEST_F(Split, WantsAllOfTheAxis) {
  const value x = drawn("x", {2, 5});
  EXPECT_THAT([&] { split(x, 1, {2, 2}); }, is_refused("lengths 2, 2 do not add up to extent 5"));
}

using Concat = test::operation_test;

TEST_F(Concat, PutsPartsOneAfterTheOther) {
  const std::array parts{counting(g, {2, 2}), counting(g, {2, 1}), counting(g, {2, 0})};
  const value y = concat(parts, 1);
  EXPECT_EQ(y.dims(), (shape{2, 3}));
  EXPECT_THAT(run_once(y), ElementsAre(0, 1, 0, 2, 3, 1));
  EXPECT_THAT(run_once(concat(std::array{counting(g, {1, 2}), counting(g, {2, 2})}, 0)),
              ElementsAre(0, 1, 0, 1, 2, 3));
}

TEST_F(Concat, UndoesSplit) {
  const value x = drawn("x", {3, 4, 5});
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::size_t rest = x.dims()[axis] - 1;
    EXPECT_EQ(run_once(concat(split(x, axis, {1, rest}), axis)), run_once(x)) << "axis " << axis;
  }
}

TEST_F(Concat, HasAGradientForEachPart) {
  const value x = drawn("x", {2, 3}), y = drawn("y", {2, 1});
  expect_gradients(concat(std::array{x, y, x}, 1), {x, y});
}

TEST_F(Concat, NamesTheLineAndTheShapes) {
  const std::array parts{drawn("x", {2, 3}), g.input("y", {3, 3})};
  EXPECT_THAT([&] { concat(parts, 1); },
              is_refused_here("concat(float32 2x3, float32 3x3)", "differ in more than axis 1"));
  EXPECT_THAT([&] { concat({}, 1); }, is_refused("nothing to put together"));
}

using Stack = test::operation_test;

TEST_F(Stack, MakesAnAxis) {
  const std::array parts{counting(g, {3}), counting(g, {3})};
  EXPECT_EQ(stack(parts, 0).dims(), (shape{2, 3}));
  EXPECT_THAT(run_once(stack(parts, 0)), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_EQ(stack(parts, 1).dims(), (shape{3, 2}));
  EXPECT_THAT(run_once(stack(parts, 1)), ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST_F(Stack, MakesARowOfScalars) {
  EXPECT_THAT(run_once(stack(std::array{g.constant(3.0F), g.constant(4.0F)}, 0)), ElementsAre(3, 4));
}

TEST_F(Stack, HasAGradient) {
  const value x = drawn("x", {2, 3}), y = drawn("y", {2, 3});
  for (std::size_t axis = 0; axis < 3; ++axis) expect_gradients(stack(std::array{x, y}, axis), {x, y});
}

TEST_F(Stack, WantsOneShape) {
  const std::array parts{drawn("x", {2, 3}), g.input("y", {3, 2})};
  EXPECT_THAT([&] { stack(parts, 0); }, is_refused("shapes differ"));
  EXPECT_THAT([&] { stack(parts, 7); }, is_refused("there is no axis 7"));
}

} // namespace
} // namespace mailgrad
