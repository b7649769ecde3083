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
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Softmax, AgreesWithTheFormulaInDouble) {
  for (const std::size_t columns : {1U, 2U, 7U, 8U, 9U, 10U, 65U}) {
    graph g;
    const tensor x = random_tensor({3, columns}, 1, -5, 5);
    const auto y = run_once(softmax(g.constant(random_tensor({3, columns}, 1, -5, 5))));
    for (std::size_t row = 0; row < 3; ++row) {
      double sum = 0;
      for (std::size_t i = 0; i < columns; ++i)
        sum += std::exp(static_cast<double>(x.values()[row * columns + i]));
      for (std::size_t i = row * columns; i < (row + 1) * columns; ++i)
        EXPECT_NEAR(y[i], std::exp(static_cast<double>(x.values()[i])) / sum, 1e-6);
    }
  }
}

TEST(Softmax, DoesNotOverflow) {
  graph g;
  EXPECT_THAT(run_once(softmax(g.constant(tensor_of({3}, {1000, 1000, -1000})))), ElementsAre(0.5F, 0.5F, 0));
}

TEST(Softmax, HasTheGradientOfCentralDifferences) {
  graph g;
  const value x = g.variable("x", {2, 3, 9}, initialiser::uniform(-2, 2));
  expect_gradients(softmax(x), {x});
  const value one = g.variable("one", {4, 1}, initialiser::uniform(-2, 2));
  expect_gradients(softmax(one), {one});
}

TEST(Softmax, NeedsAnAxis) {
  graph g;
  EXPECT_THAT([&] { softmax(g.constant(1)); },
              ThrowsMessage<graph_error>(HasSubstr("softmax(float32 scalar)")));
}

} // namespace
} // namespace mailgrad
