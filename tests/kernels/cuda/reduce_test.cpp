#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/reduce.hpp>

#include <array>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using testing::expect_close;
using testing::normal_values;
using testing::shifted_array;

/// Extents, and for each a letter: s for summed, k for kept.
struct summed_axes {
  shape dims;
  std::string how;

  sum_plan plan() const {
    std::array<bool, shape::max_rank> summed{};
    for (std::size_t axis = 0; axis < dims.rank(); ++axis) summed[axis] = how[axis] == 's';
    return plan_sum(dims, summed);
  }
};

void PrintTo(const summed_axes& a, std::ostream* out) { *out << to_string(a.dims) << ' ' << a.how; }

class GpuSum : public testing::gpu_test, public ::testing::WithParamInterface<summed_axes> {};

TEST_P(GpuSum, EqualsThatOfTheHost) {
  const sum_plan plan = GetParam().plan();
  const std::vector<float> x = normal_values(GetParam().dims.size(), 5);
  std::vector<float> expected(plan.result_size);
  sum(host_stream{}, plan, x.data(), 0.5F, expected.data());
  const std::size_t terms = x.size() / std::max<std::size_t>(plan.result_size, 1);
  for (const std::size_t shift : {0U, 1U}) {
    const shifted_array<float> from(queue(), x, shift), to(queue(), plan.result_size, 0U);
    sum(gpu(), plan, from.data(), 0.5F, to.data());
    const auto found = to.read();
    // The host adds columns one by one, which is where most of the difference comes from.
    expect_close(found, expected, 0.1F * std::sqrt(static_cast<float>(terms)) + 1);
    sum(gpu(), plan, from.data(), 0.5F, to.data());
    EXPECT_EQ(found, to.read());
  }
}

INSTANTIATE_TEST_SUITE_P(Axes, GpuSum,
                         ::testing::Values(summed_axes{{1}, "s"}, summed_axes{{5}, "k"}, summed_axes{{}, ""},
                                           summed_axes{{300007}, "s"},    // two stages
                                           summed_axes{{3, 9004}, "ks"},  // few long rows
                                           summed_axes{{3, 9003}, "ks"},  // that start anywhere
                                           summed_axes{{40, 1500}, "ks"}, // many long rows
                                           summed_axes{{333, 10}, "ks"}, summed_axes{{50, 1}, "ks"},
                                           summed_axes{{90, 1024}, "ks"}, summed_axes{{7, 33}, "sk"},
                                           summed_axes{{20000, 3}, "sk"}, summed_axes{{4000, 65}, "sk"},
                                           summed_axes{{31, 5000}, "sk"}, summed_axes{{3, 700, 9}, "ksk"},
                                           summed_axes{{4, 6, 5}, "sks"}, summed_axes{{2, 3, 4, 5}, "sksk"},
                                           summed_axes{{3, 2, 4, 5}, "ksks"},
                                           summed_axes{{3, 2, 4, 5, 2}, "sksks"}, summed_axes{{0, 4}, "sk"},
                                           summed_axes{{4, 0}, "ks"}, summed_axes{{40, 0}, "ks"},
                                           summed_axes{{0, 4}, "ks"}, summed_axes{{3, 0, 2}, "sks"},
                                           summed_axes{{3, 2, 0}, "sks"}));

class GpuReductions : public testing::gpu_test {};

TEST_F(GpuReductions, SumRowsOfScratchMemory) {
  const std::vector<float> x = normal_values(300 * 17, 3);
  auto* const scratch = static_cast<float*>(on_gpu().scratch);
  cuda::runtime::copy(on_gpu().stream, scratch, x.data(), x.size() * sizeof(float));
  const auto y = unwritten<float>(17);
  cuda::sum_columns(on_gpu(), "sum", scratch, 300, 17, 1, y.data());
  std::vector<float> expected(17);
  for (std::size_t i = 0; i < x.size(); ++i) expected[i % 17] += x[i];
  expect_close(y.read(), expected, 10);
}

TEST_F(GpuReductions, HaveTheMeanSquaredDifferenceOfTheHost) {
  for (const std::size_t n : {0U, 1U, 1003U, 100002U})
    for (const std::size_t shift : {0U, 1U}) {
      const std::vector<float> a = normal_values(n, 1), b = normal_values(n, 2);
      const shifted_array<float> on_a(queue(), a, shift), on_b(queue(), b, 0U);
      const auto y = unwritten<float>(1);
      mean_squared_difference(gpu(), on_a.data(), on_b.data(), n, y.data());
      std::vector<float> expected(1);
      mean_squared_difference(host_stream{}, a.data(), b.data(), n, expected.data());
      expect_close(y.read(), expected, 0);
    }
}

} // namespace
} // namespace mailgrad
