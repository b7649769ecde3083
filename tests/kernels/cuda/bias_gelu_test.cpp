#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

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
class GpuBiasGelu : public testing::gpu_test,
                    public ::testing::WithParamInterface<std::tuple<std::size_t, std::size_t, std::size_t>> {
};

TEST_P(GpuBiasGelu, EqualsThatOfTheHost) {
  const auto [rows, columns, shift] = GetParam();
  const std::size_t n = rows * columns;
  const std::vector<float> x = normal_values(n, 1), b = normal_values(columns, 2), dy = normal_values(n, 3);
  std::vector<float> y(n), slope(n), dz(n), db(columns);
  bias_gelu(host_stream{}, x.data(), b.data(), y.data(), slope.data(), rows, columns);
  bias_gelu_gradient(host_stream{}, slope.data(), dy.data(), dz.data(), db.data(), rows, columns);

  const shifted_array<float> on_x(queue(), x, shift), on_slope(queue(), n, shift), on_dy(queue(), dy, shift);
  const auto on_b = array(b), on_db = unwritten<float>(columns);
  bias_gelu(gpu(), on_x.data(), on_b.data(), on_x.data(), on_slope.data(), rows, columns);
  bias_gelu_gradient(gpu(), on_slope.data(), on_dy.data(), on_dy.data(), on_db.data(), rows, columns);
  expect_close(on_x.read(), y);
  expect_close(on_slope.read(), slope);
  expect_close(on_dy.read(), dz);
  expect_close(on_db.read(), db, std::sqrt(static_cast<float>(rows)) + 1);
}

using GpuBiasGeluArrays = testing::gpu_test;

TEST_F(GpuBiasGeluArrays, MayEachStartAtAnyFloat) {
  constexpr std::size_t rows = 5, columns = 8, n = rows * columns;
  const std::vector<float> x = normal_values(n, 1), b = normal_values(columns, 2), dy = normal_values(n, 3);
  std::vector<float> y(n), slope(n), dz(n), db(columns);
  bias_gelu(host_stream{}, x.data(), b.data(), y.data(), slope.data(), rows, columns);
  bias_gelu_gradient(host_stream{}, slope.data(), dy.data(), dz.data(), db.data(), rows, columns);
  for (const auto& shifts : one_shifted_of(4)) {
    SCOPED_TRACE(::testing::PrintToString(shifts));
    const shifted_array<float> on_x(queue(), x, shifts[0]), on_b(queue(), b, shifts[1]);
    const shifted_array<float> on_y(queue(), n, shifts[2]), on_slope(queue(), n, shifts[3]);
    bias_gelu(gpu(), on_x.data(), on_b.data(), on_y.data(), on_slope.data(), rows, columns);
    expect_close(on_y.read(), y);
    expect_close(on_slope.read(), slope);
    const shifted_array<float> from(queue(), slope, shifts[0]), on_dy(queue(), dy, shifts[1]);
    const shifted_array<float> on_dz(queue(), n, shifts[2]), on_db(queue(), columns, shifts[3]);
    bias_gelu_gradient(gpu(), from.data(), on_dy.data(), on_dz.data(), on_db.data(), rows, columns);
    expect_close(on_dz.read(), dz);
    expect_close(on_db.read(), db, 4);
  }
}

TEST_P(GpuBiasGelu, ComputesRowsThatAreTooManyFor32BitsInParts) {
  const auto [rows, columns, shift] = GetParam();
  const std::size_t n = rows * columns;
  const auto b = array(normal_values(columns, 2));
  const shifted_array<float> x(queue(), normal_values(n, 1), shift);
  const shifted_array<float> y(queue(), n, shift), slope(queue(), n, shift);
  const shifted_array<float> expected(queue(), n, shift), expected_slope(queue(), n, shift);
  bias_gelu(gpu(), x.data(), b.data(), expected.data(), expected_slope.data(), rows, columns);
  bias_gelu(gpu_with_few_in_32_bits(200), x.data(), b.data(), y.data(), slope.data(), rows, columns);
  EXPECT_EQ(y.read(), expected.read());
  EXPECT_EQ(slope.read(), expected_slope.read());
  if (n == 0) return;
  EXPECT_THROW(bias_gelu(gpu_with_few_in_32_bits(columns - 1), x.data(), b.data(), y.data(), slope.data(),
                         rows, columns),
               shape_error)
      << "one row has too many";
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuBiasGelu,
                         ::testing::Combine(::testing::Values(0U, 1U, 37U, 600U),
                                            ::testing::Values(1U, 7U, 64U), ::testing::Values(0U, 1U)));

} // namespace
} // namespace mailgrad
