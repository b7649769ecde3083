#include "../../support/card_test.hpp"
#include "../../support/card_values.hpp"

#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/tensor/error.hpp>

#include <vector>

namespace mailgrad {
namespace {

using testing::expect_close;
using testing::normal_values;
using testing::one_shifted_of;
using testing::shifted_array;

/// Rows, columns, and how far the arrays are shifted.
class CardBiasGelu : public testing::card_test,
                     public ::testing::WithParamInterface<std::tuple<std::size_t, std::size_t, std::size_t>> {
};

TEST_P(CardBiasGelu, EqualsThatOfTheHost) {
  const auto [rows, columns, shift] = GetParam();
  const std::size_t n = rows * columns;
  const std::vector<float> x = normal_values(n, 1), b = normal_values(columns, 2), dy = normal_values(n, 3);
  std::vector<float> y(n), slope(n), dz(n), db(columns);
  bias_gelu(host_stream{}, x.data(), b.data(), y.data(), slope.data(), rows, columns);
  bias_gelu_gradient(host_stream{}, slope.data(), dy.data(), dz.data(), db.data(), rows, columns);

  const shifted_array<float> on_x(lane(), x, shift), on_slope(lane(), n, shift), on_dy(lane(), dy, shift);
  const auto on_b = array(b), on_db = unwritten<float>(columns);
  bias_gelu(card(), on_x.data(), on_b.data(), on_x.data(), on_slope.data(), rows, columns);
  bias_gelu_gradient(card(), on_slope.data(), on_dy.data(), on_dy.data(), on_db.data(), rows, columns);
  expect_close(on_x.read(), y);
  expect_close(on_slope.read(), slope);
  expect_close(on_dy.read(), dz);
  expect_close(on_db.read(), db, std::sqrt(static_cast<float>(rows)) + 1);
}

using CardBiasGeluArrays = testing::card_test;

TEST_F(CardBiasGeluArrays, MayEachStartAtAnyFloat) {
  constexpr std::size_t rows = 5, columns = 8, n = rows * columns;
  const std::vector<float> x = normal_values(n, 1), b = normal_values(columns, 2), dy = normal_values(n, 3);
  std::vector<float> y(n), slope(n), dz(n), db(columns);
  bias_gelu(host_stream{}, x.data(), b.data(), y.data(), slope.data(), rows, columns);
  bias_gelu_gradient(host_stream{}, slope.data(), dy.data(), dz.data(), db.data(), rows, columns);
  for (const auto& shifts : one_shifted_of(4)) {
    SCOPED_TRACE(::testing::PrintToString(shifts));
    const shifted_array<float> on_x(lane(), x, shifts[0]), on_b(lane(), b, shifts[1]);
    const shifted_array<float> on_y(lane(), n, shifts[2]), on_slope(lane(), n, shifts[3]);
    bias_gelu(card(), on_x.data(), on_b.data(), on_y.data(), on_slope.data(), rows, columns);
    expect_close(on_y.read(), y);
    expect_close(on_slope.read(), slope);
    const shifted_array<float> from(lane(), slope, shifts[0]), on_dy(lane(), dy, shifts[1]);
    const shifted_array<float> on_dz(lane(), n, shifts[2]), on_db(lane(), columns, shifts[3]);
    bias_gelu_gradient(card(), from.data(), on_dy.data(), on_dz.data(), on_db.data(), rows, columns);
    expect_close(on_dz.read(), dz);
    expect_close(on_db.read(), db, 4);
  }
}

TEST_P(CardBiasGelu, ComputesRowsThatAreTooManyFor32BitsInParts) {
  const auto [rows, columns, shift] = GetParam();
  const std::size_t n = rows * columns;
  const auto b = array(normal_values(columns, 2));
  const shifted_array<float> x(lane(), normal_values(n, 1), shift);
  const shifted_array<float> y(lane(), n, shift), slope(lane(), n, shift);
  const shifted_array<float> expected(lane(), n, shift), expected_slope(lane(), n, shift);
  bias_gelu(card(), x.data(), b.data(), expected.data(), expected_slope.data(), rows, columns);
  bias_gelu(card_with_few_in_32_bits(200), x.data(), b.data(), y.data(), slope.data(), rows, columns);
  EXPECT_EQ(y.read(), expected.read());
  EXPECT_EQ(slope.read(), expected_slope.read());
  if (n == 0) return;
  EXPECT_THROW(bias_gelu(card_with_few_in_32_bits(columns - 1), x.data(), b.data(), y.data(), slope.data(),
                         rows, columns),
               shape_error)
      << "one row has too many";
}

INSTANTIATE_TEST_SUITE_P(Shapes, CardBiasGelu,
                         ::testing::Combine(::testing::Values(0U, 1U, 37U, 600U),
                                            ::testing::Values(1U, 7U, 64U), ::testing::Values(0U, 1U)));

} // namespace
} // namespace mailgrad
