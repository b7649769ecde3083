#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/layer_norm.hpp>
#include <mailgrad/kernels/reduce.hpp>
#include <mailgrad/tensor/error.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

// Kernels that are no products, whose operands or results are bfloat16 all the same.

namespace mailgrad {
namespace {

using testing::expect_close;
using testing::gpu_array;
using testing::normal_values;
using testing::shifted_array;

/// Numbers that bfloat16 has.
std::vector<float> rounded(std::vector<float> x) {
  for (float& v : x) v = float_of_bfloat16(bfloat16_of_float(v));
  return x;
}

/// An array of either type on the GPU.
class either_array {
public:
  either_array(cuda::gpu_queue& queue, const std::vector<float>& values, bool in_bfloat16,
               std::size_t shift) {
    std::vector<std::uint16_t> bits;
    for (const float v : values) bits.push_back(bfloat16_of_float(v));
    if (in_bfloat16)
      rounded_.emplace(queue, bits, shift);
    else
      floats_.emplace(queue, values, shift);
  }

  read_numbers read_from() const {
    if (floats_) return static_cast<const float*>(floats_->data());
    return reinterpret_cast<const bfloat16*>(rounded_->data());
  }
  written_numbers write_to() const {
    if (floats_) return floats_->data();
    return reinterpret_cast<bfloat16*>(rounded_->data());
  }
  std::vector<float> read() const {
    if (floats_) return floats_->read();
    std::vector<float> values;
    for (const std::uint16_t bits : rounded_->read()) values.push_back(float_of_bfloat16(bits));
    return values;
  }

private:
  std::optional<shifted_array<float>> floats_;
  std::optional<shifted_array<std::uint16_t>> rounded_;
};

class GpuRoundedValues : public testing::gpu_test {
protected:
  either_array either(const std::vector<float>& values, bool in_bfloat16, std::size_t shift) {
    return {queue(), values, in_bfloat16, shift};
  }
  /// Rounding to bfloat16 is off by 2^-8 of a number.
  static void expect_rounded(const std::vector<float>& found, const std::vector<float>& expected,
                             float times = 1) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], times * 0x1.02p-8F * std::abs(expected[i]) + 1e-5F) << i;
  }
};

TEST_F(GpuRoundedValues, OfLayerNormAreThoseOfTheHost) {
  for (const std::size_t width : {5U, 64U, 768U, 1030U})
    for (const std::size_t shift : {0U, 1U}) {
      const layer_norm_rows r{7, width};
      const auto x = normal_values(r.rows * width, 1), gamma = normal_values(width, 2),
                 beta = normal_values(width, 3);
      std::vector<float> y(x.size()), mean(r.rows), inverse(r.rows);
      layer_norm(host_stream{}, r, x.data(), gamma.data(), beta.data(), y.data(), mean.data(),
                 inverse.data());
      const auto on_x = array(x), on_gamma = array(gamma), on_beta = array(beta);
      const auto on_mean = unwritten<float>(r.rows), on_inverse = unwritten<float>(r.rows);
      const either_array on_y = either(std::vector<float>(y.size(), NAN), true, shift);
      layer_norm(gpu(), r, on_x.data(), on_gamma.data(), on_beta.data(), on_y.write_to(), on_mean.data(),
                 on_inverse.data());
      expect_rounded(on_y.read(), y);
      expect_close(on_mean.read(), mean);
      expect_close(on_inverse.read(), inverse);

      const auto dy = rounded(normal_values(x.size(), 4));
      std::vector<float> dx(x.size()), dgamma(width), dbeta(width);
      layer_norm_gradient(host_stream{}, r, x.data(), gamma.data(), mean.data(), inverse.data(), dy.data(),
                          dx.data(), dgamma.data(), dbeta.data());
      const either_array on_dy = either(dy, true, shift);
      const auto on_dx = unwritten<float>(dx.size()), on_dgamma = unwritten<float>(width),
                 on_dbeta = unwritten<float>(width);
      layer_norm_gradient(gpu(), r, on_x.data(), on_gamma.data(), on_mean.data(), on_inverse.data(),
                          on_dy.read_from(), on_dx.data(), on_dgamma.data(), on_dbeta.data());
      expect_close(on_dx.read(), dx, 4);
      expect_close(on_dgamma.read(), dgamma, 4);
      expect_close(on_dbeta.read(), dbeta, 4);
    }
}

TEST_F(GpuRoundedValues, OfBiasGeluAndItsGradientAreThoseOfTheHost) {
  for (const std::size_t columns : {3U, 40U})
    for (const bool from_rounded : {false, true})
      for (const bool to_rounded : {false, true})
        for (const std::size_t shift : {0U, 1U}) {
          constexpr std::size_t rows = 70;
          const std::size_t n = rows * columns;
          const auto x = rounded(normal_values(n, 1)), b = normal_values(columns, 2),
                     dy = rounded(normal_values(n, 3));
          std::vector<float> y(n), slope(n), dz(n), db(columns);
          bias_gelu(host_stream{}, x.data(), b.data(), y.data(), slope.data(), rows, columns);
          bias_gelu_gradient(host_stream{}, slope.data(), dy.data(), dz.data(), db.data(), rows, columns);
          const auto on_b = array(b), on_db = unwritten<float>(columns);
          const std::vector<float> none(n, NAN);
          const either_array on_slope = either(none, to_rounded, shift);
          const either_array on_x = either(x, from_rounded, shift), on_y = either(none, to_rounded, shift);
          bias_gelu(gpu(), on_x.read_from(), on_b.data(), on_y.write_to(), on_slope.write_to(), rows,
                    columns);
          expect_rounded(on_y.read(), y);
          expect_rounded(on_slope.read(), slope);
          const either_array on_dy = either(dy, from_rounded, shift), on_dz = either(none, to_rounded, shift);
          bias_gelu_gradient(gpu(), on_slope.read_from(), on_dy.read_from(), on_dz.write_to(), on_db.data(),
                             rows, columns);
          expect_rounded(on_dz.read(), dz, to_rounded ? 2 : 1);
          const auto sums = on_db.read();
          for (std::size_t i = 0; i < columns; ++i)
            EXPECT_NEAR(sums[i], db[i], 0x1p-8F * std::sqrt(static_cast<float>(rows)) * 4) << i;
        }
}

TEST_F(GpuRoundedValues, AreAddedUpByRows) {
  for (const std::size_t rows : {1U, 31U, 1000U})
    for (const std::size_t columns : {2U, 65U, 300U}) {
      const sum_plan plan = plan_sum({rows, columns}, {true, false});
      ASSERT_TRUE(sums_rows(plan));
      const auto x = rounded(normal_values(rows * columns, 1));
      std::vector<float> y(columns);
      sum(host_stream{}, plan, x.data(), 0.5F, y.data());
      const either_array on_x = either(x, true, 0);
      const auto on_y = unwritten<float>(columns);
      sum(gpu(), plan, on_x.read_from(), 0.5F, on_y.data());
      expect_close(on_y.read(), y, std::sqrt(static_cast<float>(rows)) + 1);
    }
  EXPECT_FALSE(sums_rows(plan_sum({4, 5}, {false, true})));
  EXPECT_FALSE(sums_rows(plan_sum({4, 5}, {true, true})));
}

TEST_F(GpuRoundedValues, AreNothingForTheHost) {
  const bfloat16 x{};
  float y = 0;
  EXPECT_THROW(sum(host_stream{}, plan_sum({1, 2}, {true, false}), &x, 1, &y), device_error);
}

} // namespace
} // namespace mailgrad
