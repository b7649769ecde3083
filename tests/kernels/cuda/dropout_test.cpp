#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/elementwise.hpp>

#include <vector>

namespace mailgrad {
namespace {

using testing::normal_values;
using testing::shifted_array;

class GpuDropout : public testing::gpu_test {
protected:
  static std::vector<float> on_host(const dropout_draw& draw, std::vector<float> x) {
    dropout(host_stream{}, draw, x.data(), x.data(), x.size());
    return x;
  }
};

TEST_F(GpuDropout, DropsWhatTheHostDrops) {
  for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{11}, std::uint64_t{7} << 40}) {
    cuda::begin_step(on_gpu(), step);
    for (const std::size_t n : {0U, 1U, 31U, 32U, 33U, 100U, 4096U, 70001U})
      for (const std::size_t shift : {0U, 1U}) {
        SCOPED_TRACE(std::to_string(n) + " from " + std::to_string(shift));
        const std::vector<float> x = normal_values(n, 1);
        const shifted_array<float> on_x(queue(), x, shift), on_y(queue(), n, 0U);
        dropout(gpu(), {0.3F, ~std::uint64_t{5}, 99}, on_x.data(), on_y.data(),
                n); // not the step of the draw
        EXPECT_EQ(on_y.read(), on_host({0.3F, ~std::uint64_t{5}, step}, x));
      }
  }
}

TEST_F(GpuDropout, WorksInPlace) {
  cuda::begin_step(on_gpu(), 3);
  const auto x = array(normal_values(1001, 1));
  dropout(gpu(), {0.5F, 7, 0}, x.data(), x.data(), x.size());
  EXPECT_EQ(x.read(), on_host({0.5F, 7, 3}, normal_values(1001, 1)));
}

} // namespace
} // namespace mailgrad
