#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::run_once;
using test::tensor_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct normalised {
  value x, gamma, beta;

  normalised(graph& g, const shape& dims)
      : x(g.variable("x", dims, initialiser::uniform(-1, 1))),
        gamma(g.variable("gamma", {dims.back()}, initialiser::uniform(0.5F, 1.5F))),
        beta(g.variable("beta", {dims.back()}, initialiser::uniform(-1, 1))) {}
};

TEST(LayerNormOperation, NormalisesEachRow) {
  graph g;
  const value x = g.constant(tensor_of({2, 1, 2}, {1, 3, -4, 4}));
  const value gamma = g.constant(tensor_of({2}, {2, 1}));
  const value beta = g.constant(tensor_of({2}, {0, 5}));
  EXPECT_THAT(
      run_once(layer_norm(x, gamma, beta, 1e-9F)),
      ElementsAre(FloatNear(-2, 1e-5F), FloatNear(6, 1e-5F), FloatNear(-2, 1e-5F), FloatNear(6, 1e-5F)));
}

TEST(LayerNormOperation, HasAGradientForEachInput) {
  for (const shape& dims : {shape{2, 3, 5}, shape{4, 9}, shape{8}}) {
    graph g;
    const normalised n(g, dims);
    expect_gradients(layer_norm(n.x, n.gamma, n.beta, 0.1F), {n.x, n.gamma, n.beta});
  }
}

TEST(LayerNormOperation, PassesAGradientOn) {
  graph g;
  const normalised n(g, {3, 4});
  expect_gradients(layer_norm(n.x * n.x, n.gamma, n.beta, 0.1F) * n.x, {n.x, n.gamma, n.beta});
}

TEST(LayerNormOperation, OfOneElementIsTheShift) {
  graph g;
  const normalised n(g, {3, 1});
  const float beta = run_once(n.beta)[0];
  EXPECT_THAT(run_once(layer_norm(n.x, n.gamma, n.beta)), ElementsAre(beta, beta, beta));
}

TEST(LayerNormOperation, NamesTheLineAndTheShapes) {
  graph g;
  const normalised n(g, {3, 4});
  const value three = g.input("three", {3});
  const std::string line = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { layer_norm(n.x, three, n.beta); };
  EXPECT_THAT(wrong,
              ThrowsMessage<graph_error>(AllOf(HasSubstr("layer_norm_test.cpp:" + line),
                                               HasSubstr("layer_norm(float32 3x4, float32 3, float32 4)"),
                                               HasSubstr("must have shape 4"))));
  EXPECT_THAT([&] { layer_norm(n.x, n.gamma, n.beta, 0); },
              ThrowsMessage<graph_error>(HasSubstr("epsilon must be above 0")));
  const value scalar = g.constant(1.0F);
  EXPECT_THAT([&] { layer_norm(scalar, n.gamma, n.beta); },
              ThrowsMessage<graph_error>(HasSubstr("rows of x have no elements")));
}

} // namespace
} // namespace mailgrad
