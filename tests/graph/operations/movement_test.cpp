#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

#include <Eigen/Core>
#include <numeric>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::random_tensor;
using test::run_once;
using test::tensor_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;

value moved_x(graph& g, const shape& dims) { return g.variable("x", dims, initialiser::uniform(-1, 1)); }

std::vector<float> counting(std::size_t n) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), 0.0F);
  return v;
}

TEST(Reshape, KeepsElementsInOrder) {
  graph g;
  const value y = reshape(g.constant(tensor_of({2, 3}, counting(6))), {3, 2, 1});
  EXPECT_EQ(y.dims(), (shape{3, 2, 1}));
  EXPECT_THAT(run_once(y), ElementsAreArray(counting(6)));
}

TEST(Reshape, RunsNoKernel) {
  graph g;
  const value y = reshape(moved_x(g, {2, 3}) + 1, {6});
  EXPECT_EQ(program(g, {{y}}).kernel_count(), 1U);
}

TEST(Reshape, KeepsTheElementType) {
  graph g;
  EXPECT_EQ(reshape(g.input("n", {6}, dtype::int32), {2, 3}).type(), (value_type{{2, 3}, dtype::int32}));
}

TEST(Reshape, PassesItsGradientOn) {
  graph g;
  const value x = moved_x(g, {2, 6});
  expect_gradients(reshape(reshape(x * x, {3, 4}), {12}), {x});
  expect_gradients(reshape(x, {12}), {x});
}

TEST(Reshape, NamesTheLineAndTheShapes) {
  graph g;
  const value x = moved_x(g, {2, 3});
  const std::string line = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { reshape(x, {4}); };
  EXPECT_THAT(wrong, ThrowsMessage<graph_error>(AllOf(HasSubstr("movement_test.cpp:" + line),
                                                      HasSubstr("reshape(float32 2x3)"),
                                                      HasSubstr("6 elements do not make 4"))));
}

TEST(Squeeze, DropsAnAxisOfOne) {
  graph g;
  const value x = moved_x(g, {2, 1, 3});
  EXPECT_EQ(squeeze(x, 1).dims(), (shape{2, 3}));
  EXPECT_EQ(run_once(squeeze(x, 1)), run_once(x));
  EXPECT_EQ(squeeze(moved_x(g, {2, 1, 3}), 1).dims(), (shape{2, 3}));
  expect_gradients(squeeze(x * x, 1), {x});
}

TEST(Squeeze, RefusesAnAxisOfMore) {
  graph g;
  const value x = moved_x(g, {2, 1});
  EXPECT_THAT([&] { squeeze(x, 0); }, ThrowsMessage<graph_error>(HasSubstr("axis 0 has extent 2, not 1")));
  EXPECT_THAT([&] { squeeze(x, 2); }, ThrowsMessage<graph_error>(HasSubstr("there is no axis 2")));
}

TEST(Transpose, AgreesWithEigen) {
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  for (const auto& [rows, columns] : {std::pair{1, 1}, {1, 7}, {9, 1}, {17, 33}}) {
    graph g;
    tensor x = random_tensor({static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)}, 3);
    const matrix expected = Eigen::Map<const matrix>(x.values().data(), rows, columns).transpose();
    EXPECT_THAT(run_once(transpose(g.constant(std::move(x)))),
                ElementsAreArray(expected.data(), static_cast<std::size_t>(expected.size())));
  }
}

TEST(Transpose, PutsTheAxesInTheOrderAsked) {
  graph g;
  const value y = transpose(g.constant(tensor_of({2, 2, 3}, counting(12))), {1, 2, 0});
  EXPECT_EQ(y.dims(), (shape{2, 3, 2}));
  EXPECT_THAT(run_once(y), ElementsAre(0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11));
}

TEST(Transpose, HasAGradient) {
  graph g;
  const value x = moved_x(g, {2, 3, 4});
  expect_gradients(transpose(x, {2, 0, 1}), {x});
  expect_gradients(transpose(x * x), {x});
}

TEST(Transpose, OfAScalarIsTheScalar) {
  graph g;
  EXPECT_THAT(run_once(transpose(g.constant(4.0F))), ElementsAre(4));
}

TEST(Transpose, WantsEachAxisOnce) {
  graph g;
  const value x = moved_x(g, {2, 3});
  EXPECT_THAT(
      [&] {
        transpose(x, {0, 0});
      },
      ThrowsMessage<graph_error>(HasSubstr("the order (0, 0) does not name each axis once")));
  EXPECT_THAT([&] { transpose(x, {0}); }, ThrowsMessage<graph_error>(HasSubstr("does not name each axis")));
}

} // namespace
} // namespace mailgrad
