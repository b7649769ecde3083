#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>
#include <limits>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::random_tensor;
using test::run_once;
using test::tensor_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

value labels_of(graph& g, const shape& dims, const std::vector<std::int32_t>& values) {
  return g.constant(tensor_of<std::int32_t>(dims, values));
}

float loss_of(const shape& dims, const std::vector<float>& logits, const std::vector<std::int32_t>& labels) {
  graph g;
  return run_once(
      cross_entropy(g.constant(tensor_of(dims, logits)), labels_of(g, {labels.size()}, labels)))[0];
}

TEST(CrossEntropy, AgreesWithTheFormulaInDouble) {
  const tensor x = random_tensor({5, 10}, 3, -4, 4);
  const std::vector<std::int32_t> labels{0, 9, 3, 3, 7};
  double expected = 0;
  for (std::size_t row = 0; row < 5; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < 10; ++i) sum += std::exp(static_cast<double>(x.values()[row * 10 + i]));
    const std::size_t at_label = row * 10 + static_cast<std::size_t>(labels[row]);
    expected += (std::log(sum) - static_cast<double>(x.values()[at_label])) / 5;
  }
  EXPECT_NEAR(loss_of({5, 10}, {x.values().begin(), x.values().end()}, labels), expected, 2e-6);
}

TEST(CrossEntropy, StaysFiniteForLargeLogits) {
  EXPECT_FLOAT_EQ(loss_of({1, 2}, {1000, -1000}, {1}), 2000);
  EXPECT_FLOAT_EQ(loss_of({1, 2}, {1000, -1000}, {0}), 0);
}

TEST(CrossEntropy, RefusesALabelThatIsNoClass) {
  EXPECT_THAT(
      [] {
        loss_of({1, 2}, {1, 2}, {2});
      },
      ThrowsMessage<std::out_of_range>(HasSubstr("label 2, but the logits have 2 classes")));
  EXPECT_THROW(loss_of({1, 2}, {1, 2}, {-1}), std::out_of_range);
}

TEST(CrossEntropy, IsNaNIfALogitIs) {
  EXPECT_TRUE(std::isnan(loss_of({1, 3}, {1, std::numeric_limits<float>::quiet_NaN(), 2}, {0})));
}

TEST(CrossEntropy, HasTheGradientOfCentralDifferences) {
  for (const std::size_t classes : {1U, 2U, 10U, 17U}) {
    graph g;
    const value x = g.variable("x", {4, classes}, initialiser::uniform(-2, 2));
    const auto last = static_cast<std::int32_t>(classes) - 1;
    const value loss = cross_entropy(x, labels_of(g, {4}, {0, last, last / 2, 0}));
    expect_gradients(loss, {x});
    expect_gradients(loss * loss, {x}); // its gradient is not 1
  }
}

TEST(CrossEntropy, TakesLabelsOfAnyRank) {
  graph g;
  const value x = g.variable("x", {2, 3, 4}, initialiser::uniform(-2, 2));
  expect_gradients(cross_entropy(x, labels_of(g, {2, 3}, {0, 1, 2, 3, 0, 1})), {x});
}

TEST(CrossEntropy, WantsALabelForEachRow) {
  graph g;
  const value x = g.constant(tensor{{4, 10}});
  const auto line = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { cross_entropy(x, labels_of(g, {3}, {0, 0, 0})); };
  EXPECT_THAT(wrong, ThrowsMessage<graph_error>(AllOf(HasSubstr("cross_entropy_test.cpp:" + line),
                                                      HasSubstr("cross_entropy(float32 4x10, int32 3)"),
                                                      HasSubstr("one label for each row"))));
  EXPECT_THAT([&] { cross_entropy(x, x); }, ThrowsMessage<graph_error>(HasSubstr("expected int32 labels")));
}

} // namespace
} // namespace mailgrad
