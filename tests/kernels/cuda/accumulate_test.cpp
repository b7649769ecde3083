#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/vectors.hpp>

#include <vector>

namespace mailgrad {
namespace {

using testing::expect_close;
using testing::normal_values;
using testing::shifted_array;

class GpuAccumulate : public testing::gpu_test {};

TEST_F(GpuAccumulate, DoesWhatTheHostDoes) {
  for (const std::size_t n : {0U, 1U, 3U, 4U, 2047U, 2048U, 2049U, 100003U})
    for (const std::size_t shift : {0U, 1U}) {
      SCOPED_TRACE(std::to_string(n) + " from " + std::to_string(shift));
      const std::vector<float> x = normal_values(n, 1), more = normal_values(n, 2);
      std::vector<float> sum(n);
      const shifted_array<float> on_x(queue(), x, shift), on_more(queue(), more, 0U),
          on_sum(queue(), n, shift);
      const std::span<float> there(on_sum.data(), n);

      fill(gpu(), 0.7F, there);
      EXPECT_EQ(on_sum.read(), std::vector<float>(n, 0.7F));
      begin_sum(host_stream{}, 0.3F, x, sum);
      begin_sum(gpu(), 0.3F, {on_x.data(), n}, there);
      EXPECT_EQ(on_sum.read(), sum);
      scale_in_place(host_stream{}, 1.7F, sum);
      scale_in_place(gpu(), 1.7F, there);
      EXPECT_EQ(on_sum.read(), sum);
      add_to_sum(host_stream{}, 0.9F, more, sum);
      add_to_sum(gpu(), 0.9F, {on_more.data(), n}, there);
      expect_close(on_sum.read(), sum);
    }
}

} // namespace
} // namespace mailgrad
