#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/kernels/reduce.hpp>

#include <array>

namespace mailgrad {
namespace {

using testing::expect_close, testing::normal_values;

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
  const std::vector<float> values = normal_values(GetParam().dims.size(), 5);
  const std::size_t terms = values.size() / std::max<std::size_t>(plan.result_size, 1);
  for (const std::size_t shift : {0U, 1U}) {
    const auto x = given(values, shift);
    auto y = wanted(plan.result_size);
    on_both([&](const stream& s, auto at) { sum(s, plan, at(x), 0.5F, at(y)); });
    // The host adds columns one by one, which is where most of the difference comes from.
    expect_close(y, 0.1F * std::sqrt(static_cast<float>(terms)) + 1);
    const auto found = y.there.read();
    sum(gpu(), plan, x.there.data(), 0.5F, y.there.data());
    EXPECT_EQ(found, y.there.read());
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

using GpuReductions = testing::gpu_test;

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
      const auto a = given(normal_values(n, 1), shift), b = given(normal_values(n, 2));
      auto y = wanted(1);
      on_both([&](const stream& s, auto at) { mean_squared_difference(s, at(a), at(b), n, at(y)); });
      expect_close(y, 0);
    }
}

/// Samples, vectors of each, and their width.
class GpuPairwiseDots
    : public testing::gpu_test,
      public ::testing::WithParamInterface<std::tuple<std::size_t, std::size_t, std::size_t>> {
protected:
  vector_sets sets{std::get<0>(GetParam()), std::get<1>(GetParam()), std::get<2>(GetParam())};
  std::vector<float> values = normal_values(sets.samples * sets.count * sets.width, 1);
  std::size_t pairs = sets.samples * sets.pairs();
};

TEST_P(GpuPairwiseDots, EqualThoseOfTheHost) {
  const auto x = given(values);
  auto dots = wanted(pairs);
  on_both([&](const stream& s, auto at) { pairwise_dots(s, sets, at(x), at(dots)); });
  expect_close(dots, std::sqrt(static_cast<float>(sets.width)));
}

TEST_P(GpuPairwiseDots, HaveTheGradientOfTheHost) {
  const auto x = given(values), ddots = given(normal_values(pairs, 2));
  auto dx = wanted(values.size());
  on_both([&](const stream& s, auto at) { pairwise_dots_gradient(s, sets, at(x), at(ddots), at(dx)); });
  expect_close(dx, std::sqrt(static_cast<float>(sets.count)));
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuPairwiseDots,
                         ::testing::Combine(::testing::Values(0U, 1U, 5U), ::testing::Values(2U, 3U, 27U),
                                            ::testing::Values(1U, 16U, 33U)));
// More pairs than threads, a sample that shared memory does not hold, more samples than blocks.
INSTANTIATE_TEST_SUITE_P(ManyPairs, GpuPairwiseDots,
                         ::testing::Values(std::tuple(1U, 70U, 3U), std::tuple(2U, 20U, 700U),
                                           std::tuple(2300U, 3U, 2U)));

} // namespace
} // namespace mailgrad
