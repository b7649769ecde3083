#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/gemm.hpp>

#include <vector>

namespace mailgrad {
namespace {

using testing::expect_close;
using testing::normal_values;

/// Samples, vectors of each, and their width.
class GpuPairwiseDots
    : public testing::gpu_test,
      public ::testing::WithParamInterface<std::tuple<std::size_t, std::size_t, std::size_t>> {
protected:
  vector_sets sets{std::get<0>(GetParam()), std::get<1>(GetParam()), std::get<2>(GetParam())};
  std::size_t n = sets.samples * sets.count * sets.width, pairs = sets.samples * sets.pairs();
  std::vector<float> x = normal_values(n, 1);
};

TEST_P(GpuPairwiseDots, EqualThoseOfTheHost) {
  std::vector<float> expected(pairs);
  pairwise_dots(host_stream{}, sets, x.data(), expected.data());
  const auto on_x = array(x), dots = unwritten<float>(pairs);
  pairwise_dots(gpu(), sets, on_x.data(), dots.data());
  expect_close(dots.read(), expected, std::sqrt(static_cast<float>(sets.width)));
}

TEST_P(GpuPairwiseDots, HaveTheGradientOfTheHost) {
  const std::vector<float> ddots = normal_values(pairs, 2);
  std::vector<float> expected(n);
  pairwise_dots_gradient(host_stream{}, sets, x.data(), ddots.data(), expected.data());
  const auto on_x = array(x), on_ddots = array(ddots), dx = unwritten<float>(n);
  pairwise_dots_gradient(gpu(), sets, on_x.data(), on_ddots.data(), dx.data());
  expect_close(dx.read(), expected, std::sqrt(static_cast<float>(sets.count)));
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
