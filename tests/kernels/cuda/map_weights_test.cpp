#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/vectors.hpp>

#include <deque>
#include <vector>

namespace mailgrad {
namespace {

using testing::expect_close;
using testing::normal_values;
using testing::shifted_array;

class GpuMapWeights : public testing::gpu_test {
protected:
  /// Positive, since some functions take a root of what they keep.
  static std::vector<float> mapped_values(std::size_t n, std::size_t array) {
    std::vector<float> values = normal_values(n, array);
    for (float& v : values) v = std::abs(v) + 0.1F;
    return values;
  }

  template <class F>
  void expect_as_on_host(const F& f, std::size_t n, std::size_t shift) {
    std::vector<std::vector<float>> here;
    std::deque<shifted_array<float>> there;
    std::vector<const float*> reads_here, reads_there;
    std::vector<float*> writes_here, writes_there;
    for (std::size_t i = 0; i < F::reads + F::writes; ++i) {
      here.push_back(mapped_values(n, i));
      there.emplace_back(queue(), here.back(), shift);
      if (i < F::reads) {
        reads_here.push_back(here[i].data());
        reads_there.push_back(there[i].data());
      } else {
        writes_here.push_back(here[i].data());
        writes_there.push_back(there[i].data());
      }
    }
    map_weights(host_stream{}, f, reads_here, writes_here, n);
    map_weights(gpu(), f, reads_there, writes_there, n);
    for (std::size_t i = 0; i < here.size(); ++i) expect_close(there[i].read(), here[i]);
  }
};

const weight_function every_function[] = {scaled_copy{0.3F},
                                          subtraction{},
                                          delay_compensation_step{0.7F, 0.2F},
                                          adaptive_delay_compensation_step{0.7F, 0.2F},
                                          gap_aware_step{0.1F, 1.1F},
                                          worker_velocity_step{0.9F},
                                          forgotten_velocity{},
                                          ahead_velocity_step{0.7F, 0.9F},
                                          look_ahead{0.3F},
                                          elastic_step{0.7F, 0.1F},
                                          elastic_pull{0.1F},
                                          feedback_step{0.7F, 0.9F}};

TEST_F(GpuMapWeights, AppliesEachFunctionAsTheHostDoes) {
  for (const weight_function& function : every_function)
    std::visit(
        [&](const auto& f) {
          SCOPED_TRACE(function.index());
          for (const std::size_t n : {0U, 1U, 5U, 2048U, 5003U})
            for (const std::size_t shift : {0U, 1U}) expect_as_on_host(f, n, shift);
        },
        function);
}

TEST_F(GpuMapWeights, MayReadWhatItWrites) {
  const auto w = array(normal_values(1001, 1)), x = array(normal_values(1001, 2));
  const std::array<const float*, 2> reads{w.data(), x.data()};
  const std::array<float*, 1> writes{w.data()};
  map_weights(gpu(), subtraction{}, reads, writes, w.size());
  std::vector<float> expected = normal_values(1001, 1);
  const std::vector<float> subtracted = normal_values(1001, 2);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= subtracted[i];
  EXPECT_EQ(w.read(), expected);
}

} // namespace
} // namespace mailgrad
