#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/cuda/stream_status.hpp>
#include <mailgrad/kernels/softmax.hpp>

namespace mailgrad {
namespace {

using testing::drawn_integers, testing::expect_close, testing::expect_same, testing::normal_values;

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();

/// Rows and columns.
class gpu_rows_test : public testing::gpu_test,
                      public ::testing::WithParamInterface<std::tuple<std::size_t, std::size_t>> {
protected:
  std::size_t rows = std::get<0>(GetParam()), columns = std::get<1>(GetParam()), n = rows * columns;
};

class GpuSoftmax : public gpu_rows_test {};

TEST_P(GpuSoftmax, EqualsThatOfTheHost) {
  std::vector<float> values = normal_values(n, 1);
  for (float& value : values) value *= 5;
  const auto x = given(values);
  auto y = wanted(n);
  on_both([&](const stream& s, auto at) { softmax(s, at(x), at(y), rows, columns); });
  expect_close(y, 0.01F);
  softmax(gpu(), x.there.data(), x.there.data(), rows, columns);
  EXPECT_EQ(x.there.read(), y.there.read());
}

TEST_P(GpuSoftmax, HasTheGradientOfTheHost) {
  std::vector<float> values = normal_values(n, 1);
  softmax(host_stream{}, values.data(), values.data(), rows, columns);
  const auto y = given(values), dy = given(normal_values(n, 2));
  auto dx = wanted(n);
  on_both([&](const stream& s, auto at) { softmax_gradient(s, at(y), at(dy), at(dx), rows, columns); });
  expect_close(dx, 1);
  softmax_gradient(gpu(), y.there.data(), dy.there.data(), dy.there.data(), rows, columns);
  EXPECT_EQ(dy.there.read(), dx.there.read());
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuSoftmax,
                         ::testing::Combine(::testing::Values(0U, 1U, 37U),
                                            ::testing::Values(1U, 2U, 3U, 10U, 32U, 33U, 100U, 200U, 300U,
                                                              1000U, 1024U, 1025U, 3000U)));
INSTANTIATE_TEST_SUITE_P(ManyRows, GpuSoftmax, ::testing::Values(std::tuple(2200U, 1030U)));

using GpuSoftmaxEdges = testing::gpu_test;

TEST_F(GpuSoftmaxEdges, RowsMayBeginAtAnyFloat) {
  constexpr std::size_t rows = 3, columns = 256, n = rows * columns;
  for (unsigned shifted = 0; shifted < 8; ++shifted) { // each of three arrays by itself
    const auto shift = [shifted](unsigned array) { return std::size_t{shifted >> array & 1U}; };
    const auto x = given(normal_values(n, 1), shift(0)), dy = given(normal_values(n, 2), shift(1));
    auto y = wanted(n, shift(1)), dx = wanted(n, shift(2));
    on_both([&](const stream& s, auto at) { softmax(s, at(x), at(y), rows, columns); });
    expect_close(y, 0.01F);
    const auto from = given(y.here, shift(0));
    on_both([&](const stream& s, auto at) { softmax_gradient(s, at(from), at(dy), at(dx), rows, columns); });
    expect_close(dx, 1);
  }
}

TEST_F(GpuSoftmaxEdges, ANanSpoilsItsRowAlone) {
  for (const std::size_t columns : {5U, 2000U}) {
    std::vector<float> values = normal_values(4 * columns, 1);
    values[columns + 1] = nan;
    values[2 * columns] = -inf;
    auto x = given(values);
    on_both([&](const stream& s, auto at) { softmax(s, at(x), at(x), 4, columns); });
    expect_close(x, 0.01F);
    EXPECT_TRUE(std::isnan(x.there.read()[columns]));
  }
}

/// Rows and classes.
class GpuCrossEntropy : public gpu_rows_test {
protected:
  std::vector<float> logits = normal_values(n, 1);
  std::vector<std::int32_t> labels = drawn_integers(rows, static_cast<std::int32_t>(columns) - 1, 2);
};

TEST_P(GpuCrossEntropy, EqualsThatOfTheHost) {
  const auto x = given(logits);
  const auto of_rows = given(labels);
  auto probabilities = wanted(n), loss = wanted(1);
  on_both([&](const stream& s, auto at) {
    cross_entropy(s, at(x), at(of_rows), at(loss), at(probabilities), rows, columns);
  });
  expect_close(loss, 0.1F);
  expect_close(probabilities, 0.01F);
  const auto first = loss.there.read();
  cross_entropy(gpu(), x.there.data(), of_rows.there.data(), loss.there.data(), x.there.data(), rows,
                columns);
  EXPECT_EQ(x.there.read(), probabilities.there.read());
  EXPECT_TRUE(rows == 0 || loss.there.read() == first);
  EXPECT_FALSE(queue().take_fault());
}

TEST_P(GpuCrossEntropy, TakesRowsAtAnyFloat) {
  const auto of_rows = given(labels);
  for (const std::size_t shift : {0U, 1U}) {
    const auto x = given(logits, 1 - shift);
    auto probabilities = wanted(n, shift), loss = wanted(1);
    on_both([&](const stream& s, auto at) {
      cross_entropy(s, at(x), at(of_rows), at(loss), at(probabilities), rows, columns);
    });
    expect_close(loss, 0.1F);
    expect_close(probabilities, 0.01F);
  }
}

TEST_P(GpuCrossEntropy, HasTheGradientOfTheHost) {
  std::vector<float> loss(1), probabilities(n);
  cross_entropy(host_stream{}, logits.data(), labels.data(), loss.data(), probabilities.data(), rows,
                columns);
  const auto of_rows = given(labels);
  const auto d_loss = given(std::vector<float>{3});
  for (const std::size_t shift : {0U, 1U}) {
    const auto from = given(probabilities, shift);
    auto dx = wanted(n, shift);
    on_both([&](const stream& s, auto at) {
      cross_entropy_gradient(s, at(from), at(of_rows), at(d_loss), at(dx), rows, columns);
    });
    expect_close(dx, 3 / static_cast<float>(rows + 1));
  }
}

TEST_P(GpuCrossEntropy, HasTheGradientOfRowsThatAreTooManyFor32Bits) {
  const auto probabilities = array(logits), whole = unwritten<float>(n), parts = unwritten<float>(n);
  const auto of_rows = array(labels);
  const auto d_loss = array(std::vector<float>{3});
  cross_entropy_gradient(gpu(), probabilities.data(), of_rows.data(), d_loss.data(), whole.data(), rows,
                         columns);
  cross_entropy_gradient(gpu_with_few_in_32_bits(5 * columns), probabilities.data(), of_rows.data(),
                         d_loss.data(), parts.data(), rows, columns);
  EXPECT_EQ(parts.read(), whole.read());
}

TEST_P(GpuCrossEntropy, CountsTheRightLabelsOfTheHost) {
  for (float& logit : logits) logit = std::round(logit); // so that several are the largest
  const auto x = given(logits);
  const auto of_rows = given(labels);
  auto right = wanted<std::int32_t>(1);
  on_both(
      [&](const stream& s, auto at) { count_right_labels(s, at(x), at(of_rows), at(right), rows, columns); });
  expect_same(right);
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
      const std::vector<std::int32_t> labels{1, bad, 2}, good{1, 0, 2};
      const auto x = array(logits), probabilities = unwritten<float>(logits.size());
      const auto of_rows = array(labels);
      const auto loss = unwritten<float>(1);
      cross_entropy(gpu_for_operation(7), x.data(), of_rows.data(), loss.data(), probabilities.data(), 3,
                    columns);
      const auto fault = queue().take_fault();
      ASSERT_TRUE(fault);
      EXPECT_EQ(fault->kind(), cuda::fault_kind::label);
      EXPECT_EQ(fault->operation(), 7U);
      EXPECT_EQ(fault->found(), bad);
      EXPECT_EQ(fault->limit(), columns);
      EXPECT_TRUE(std::isfinite(loss.read()[0]));

      std::vector<float> expected(logits.size()), unused(1);
      cross_entropy(host_stream{}, logits.data(), good.data(), unused.data(), expected.data(), 3, columns);
      expect_close(probabilities.read(), expected, 0.01F);
      const auto right = unwritten<std::int32_t>(1);
      count_right_labels(gpu(), x.data(), of_rows.data(), right.data(), 3, columns);
      EXPECT_LE(right.read()[0], 2);
    }
}

TEST_F(GpuLabels, AreComparedWithTheAnswersOfTheHostWhereLogitsAreNotNumbers) {
  const auto x = given(std::vector<float>{nan, 1, 2, /**/ 1, nan, 2, /**/ -inf, -inf, -inf, /**/ nan, inf, 0,
                                          /**/ 0, -0.0F, 0});
  for (std::int32_t label = 0; label < 3; ++label) {
    const auto labels = given(std::vector<std::int32_t>(5, label));
    auto right = wanted<std::int32_t>(1);
    on_both([&](const stream& s, auto at) { count_right_labels(s, at(x), at(labels), at(right), 5, 3); });
    expect_same(right);
  }
}

} // namespace
} // namespace mailgrad
