#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::run_once;
using testing::AllOf;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;

struct biased {
  value x, b;

  biased(graph& g, const shape& dims)
      : x(g.variable("x", dims, initialiser::uniform(-4, 4))),
        b(g.variable("b", {dims.back()}, initialiser::uniform(-1, 1))) {}
};

const std::vector<shape> some_shapes{{2, 3, 5}, {4, 33}, {16}, {3, 1}};

TEST(BiasGelu, IsGeluOfTheSum) {
  for (const shape& dims : some_shapes) {
    graph g;
    const biased n(g, dims);
    EXPECT_THAT(run_once(bias_gelu(n.x, n.b)),
                Pointwise(FloatNear(1e-6F), run_once(gelu(add_bias(n.x, n.b)))));
  }
}

TEST(BiasGelu, HasAGradientForEachInput) {
  for (const shape& dims : some_shapes) {
    graph g;
    const biased n(g, dims);
    expect_gradients(bias_gelu(n.x, n.b), {n.x, n.b});
  }
}

TEST(BiasGelu, LeavesAloneWhatOthersRead) {
  graph g;
  const biased n(g, {3, 4});
  const value twice = n.x + n.x;
  expect_gradients(bias_gelu(twice, n.b) * twice, {n.x, n.b});
}

TEST(BiasGelu, NamesTheLineAndTheShapes) {
  graph g;
  const biased n(g, {3, 4});
  const value three = g.input("three", {3});
  const std::string line = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { bias_gelu(n.x, three); };
  EXPECT_THAT(wrong, ThrowsMessage<graph_error>(AllOf(HasSubstr("bias_gelu_test.cpp:" + line),
                                                      HasSubstr("bias_gelu(float32 3x4, float32 3)"),
                                                      HasSubstr("as long as a row of x"))));
  EXPECT_THAT([&] { bias_gelu(g.input("labels", {4}, dtype::int32), n.b); },
              ThrowsMessage<graph_error>(HasSubstr("expected float32")));
}

} // namespace
} // namespace mailgrad
