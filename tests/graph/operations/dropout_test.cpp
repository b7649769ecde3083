#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::run_once;
using test::tensor_of;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

value ones(graph& g, const shape& dims) {
  return g.constant(tensor_of(dims, std::vector<float>(dims.size(), 1)));
}

TEST(DropoutOperation, DropsSomeAndScalesTheRest) {
  graph g;
  const auto y = run_once(dropout(ones(g, {10, 10}), 0.5F, 1));
  EXPECT_THAT(y, Each(AnyOf(0, 2)));
  EXPECT_THAT(y, AllOf(Contains(0), Contains(2)));
}

TEST(DropoutOperation, DrawsAnewInEachStep) {
  graph g;
  const value y = dropout(ones(g, {100}), 0.5F, 1);
  EXPECT_EQ(run_once(y, {}, 3), run_once(y, {}, 3));
  EXPECT_NE(run_once(y, {}, 3), run_once(y, {}, 4));
}

TEST(DropoutOperation, DrawsBySeed) {
  graph g;
  EXPECT_NE(run_once(dropout(ones(g, {100}), 0.5F, 1)), run_once(dropout(ones(g, {100}), 0.5F, 2)));
}

TEST(DropoutOperation, DropsTheSameOnTheWayBack) {
  graph g;
  const value x = g.variable("x", {5, 7}, initialiser::uniform(-1, 1));
  expect_gradients(dropout(x * x, 0.4F, 9), {x}, {}, {}, 5);
}

TEST(DropoutOperation, LeavesAloneWhatOthersRead) {
  graph g;
  const value x = g.variable("x", {40}, initialiser::uniform(-1, 1));
  const value y = x * 2;
  EXPECT_EQ(run_once(dropout(y, 0.5F, 1) - dropout(y, 0.5F, 1)), std::vector<float>(40));
}

TEST(DropoutOperation, RefusesARateThatIsNone) {
  graph g;
  const value x = ones(g, {2});
  const std::string line = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { dropout(x, 1, 1); };
  EXPECT_THAT(wrong, ThrowsMessage<graph_error>(AllOf(HasSubstr("dropout_test.cpp:" + line),
                                                      HasSubstr("dropout(float32 2)"),
                                                      HasSubstr("at least 0 and below 1"))));
  EXPECT_THAT([&] { dropout(x, -0.1F, 1); }, ThrowsMessage<graph_error>(HasSubstr("rate")));
  EXPECT_THAT([&] { dropout(g.input("n", {2}, dtype::int32), 0.1F, 1); },
              ThrowsMessage<graph_error>(HasSubstr("float32")));
}

} // namespace
} // namespace mailgrad
