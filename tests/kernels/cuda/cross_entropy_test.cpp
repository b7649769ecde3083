#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/cuda/stream_status.hpp>
#include <mailgrad/kernels/softmax.hpp>

#include <limits>
#include <stdexcept>
#include <vector>

namespace mailgrad {
namespace {

using testing::drawn_integers;
using testing::expect_close;
using testing::normal_values;
using testing::shifted_array;

/// Rows and classes.
class GpuCrossEntropy : public testing::gpu_test,
                        public ::testing::WithParamInterface<std::tuple<std::size_t, std::size_t>> {
protected:
  std::size_t rows = std::get<0>(GetParam()), columns = std::get<1>(GetParam()), n = rows * columns;
  std::vector<float> logits = normal_values(n, 1);
  std::vector<std::int32_t> labels = drawn_integers(rows, static_cast<std::int32_t>(columns) - 1, 2);
};

TEST_P(GpuCrossEntropy, EqualsThatOfTheHost) {
  std::vector<float> loss(1), expected(n);
  cross_entropy(host_stream{}, logits.data(), labels.data(), loss.data(), expected.data(), rows, columns);
  const auto on_logits = array(logits), probabilities = unwritten<float>(n), on_loss = unwritten<float>(1);
  const auto on_labels = array(labels);
  cross_entropy(gpu(), on_logits.data(), on_labels.data(), on_loss.data(), probabilities.data(), rows,
                columns);
  expect_close(on_loss.read(), loss, 0.1F);
  expect_close(probabilities.read(), expected, 0.01F);
  const auto first = on_loss.read();
  cross_entropy(gpu(), on_logits.data(), on_labels.data(), on_loss.data(), on_logits.data(), rows, columns);
  EXPECT_EQ(on_logits.read(), probabilities.read());
  EXPECT_TRUE(rows == 0 || on_loss.read() == first);
  EXPECT_FALSE(queue().take_fault());
}

TEST_P(GpuCrossEntropy, TakesRowsAtAnyFloat) {
  std::vector<float> loss(1), expected(n);
  cross_entropy(host_stream{}, logits.data(), labels.data(), loss.data(), expected.data(), rows, columns);
  const auto on_labels = array(labels);
  for (const std::size_t shift : {0U, 1U}) {
    const auto on_loss = unwritten<float>(1);
    const shifted_array<float> from(queue(), logits, 1 - shift), to(queue(), n, shift);
    cross_entropy(gpu(), from.data(), on_labels.data(), on_loss.data(), to.data(), rows, columns);
    expect_close(on_loss.read(), loss, 0.1F);
    expect_close(to.read(), expected, 0.01F);
  }
}

TEST_P(GpuCrossEntropy, HasTheGradientOfTheHost) {
  std::vector<float> loss(1), probabilities(n), expected(n);
  cross_entropy(host_stream{}, logits.data(), labels.data(), loss.data(), probabilities.data(), rows,
                columns);
  const std::vector<float> d_loss{3};
  cross_entropy_gradient(host_stream{}, probabilities.data(), labels.data(), d_loss.data(), expected.data(),
                         rows, columns);
  const auto on_labels = array(labels);
  const auto on_d_loss = array(d_loss);
  for (const std::size_t shift : {0U, 1U}) {
    const shifted_array<float> from(queue(), probabilities, shift), to(queue(), n, shift);
    cross_entropy_gradient(gpu(), from.data(), on_labels.data(), on_d_loss.data(), to.data(), rows, columns);
    expect_close(to.read(), expected, 3 / static_cast<float>(rows + 1));
  }
}

TEST_P(GpuCrossEntropy, HasTheGradientOfRowsThatAreTooManyFor32Bits) {
  const auto probabilities = array(logits), whole = unwritten<float>(n), parts = unwritten<float>(n);
  const auto on_labels = array(labels);
  const auto d_loss = array(std::vector<float>{3});
  cross_entropy_gradient(gpu(), probabilities.data(), on_labels.data(), d_loss.data(), whole.data(), rows,
                         columns);
  cross_entropy_gradient(gpu_with_few_in_32_bits(5 * columns), probabilities.data(), on_labels.data(),
                         d_loss.data(), parts.data(), rows, columns);
  EXPECT_EQ(parts.read(), whole.read());
}

TEST_P(GpuCrossEntropy, CountsTheRightLabelsOfTheHost) {
  for (float& logit : logits) logit = std::round(logit); // so that several are the largest
  std::int32_t expected = -1;
  count_right_labels(host_stream{}, logits.data(), labels.data(), &expected, rows, columns);
  const auto on_logits = array(logits);
  const auto on_labels = array(labels), right = unwritten<std::int32_t>(1);
  count_right_labels(gpu(), on_logits.data(), on_labels.data(), right.data(), rows, columns);
  EXPECT_EQ(right.read(), std::vector{expected});
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuCrossEntropy,
                         ::testing::Combine(::testing::Values(0U, 1U, 37U),
                                            ::testing::Values(1U, 2U, 10U, 33U, 64U, 130U, 1000U, 1025U,
                                                              3000U)));
INSTANTIATE_TEST_SUITE_P(ManyRows, GpuCrossEntropy, ::testing::Values(std::tuple(40000U, 10U)));

using GpuLabels = testing::gpu_test;

TEST_F(GpuLabels, ThatAreNoClassAreFaultsAndTheOtherRowsCount) {
  for (const std::size_t columns : {3U, 1500U})
    for (const std::int32_t bad :
         {static_cast<std::int32_t>(columns), -1, std::numeric_limits<std::int32_t>::min()}) {
      const std::vector<float> logits = normal_values(3 * columns, 4);
      const std::vector<std::int32_t> labels{1, bad, 2};
      const auto on_logits = array(logits), probabilities = unwritten<float>(logits.size());
      const auto on_labels = array(labels);
      const auto loss = unwritten<float>(1);
      cuda_stream numbered = on_gpu();
      numbered.operation = 7;
      cross_entropy(numbered, on_logits.data(), on_labels.data(), loss.data(), probabilities.data(), 3,
                    columns);
      const auto fault = queue().take_fault();
      ASSERT_TRUE(fault);
      EXPECT_EQ(fault->kind(), cuda::fault_kind::label);
      EXPECT_EQ(fault->operation(), 7U);
      EXPECT_EQ(fault->found(), bad);
      EXPECT_EQ(fault->limit(), columns);
      EXPECT_TRUE(std::isfinite(loss.read()[0]));

      std::vector<float> expected(logits.size()), unused(1);
      const std::vector<std::int32_t> good{1, 0, 2};
      cross_entropy(host_stream{}, logits.data(), good.data(), unused.data(), expected.data(), 3, columns);
      expect_close(probabilities.read(), expected, 0.01F);
      const auto right = unwritten<std::int32_t>(1);
      count_right_labels(gpu(), on_logits.data(), on_labels.data(), right.data(), 3, columns);
      EXPECT_LE(right.read()[0], 2);
    }
}

TEST_F(GpuLabels, AreComparedWithTheAnswersOfTheHostWhereLogitsAreNotNumbers) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> logits{nan,  1,        2,   /**/ 1, nan,    2,     /**/ -inf, -inf,
                                  -inf, /**/ nan, inf, 0,      /**/ 0, -0.0F, 0};
  for (std::int32_t label = 0; label < 3; ++label) {
    const std::vector<std::int32_t> labels(5, label);
    std::int32_t expected = -1;
    count_right_labels(host_stream{}, logits.data(), labels.data(), &expected, 5, 3);
    const auto on_logits = array(logits);
    const auto on_labels = array(labels), right = unwritten<std::int32_t>(1);
    count_right_labels(gpu(), on_logits.data(), on_labels.data(), right.data(), 5, 3);
    EXPECT_EQ(right.read()[0], expected) << label;
  }
}

} // namespace
} // namespace mailgrad
