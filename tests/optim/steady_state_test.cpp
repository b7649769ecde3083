#include <mailgrad/tests/support/test_name.hpp>

#include <mailgrad/optim/clip.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/tests/data/allocations.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mailgrad {
namespace {

class SteadyState : public ::testing::TestWithParam<std::string_view> {};

TEST_P(SteadyState, TakesNoMemory) {
  optimizer_options options = parse_optimizer(GetParam());
  options.schedule = parse_schedule("cosine:total=100,warmup=3");
  const auto o = make_optimizer(options, 600);
  std::vector<float> w(600, 1);
  const std::vector<float> g(600, 0.5F);
  const scaled_gradient two[] = {{g.data(), 0.5F}, {g.data(), 0.5F}};
  const std::vector<std::int32_t> rows{3, 1, 3, 2};
  const auto train = [&](std::uint64_t step) {
    o->update(host_stream{}, {w, w, std::span(two).first(1 + step % 2), step});
    o->update_rows(host_stream{}, {.weights = w,
                                   .width = 60,
                                   .rows = std::span(rows).first(2 + step % 3),
                                   .values = g,
                                   .step = step,
                                   .row_end = 10});
    return clip_factor(sum_of_squares(host_stream{}, g), 1);
  };
  for (std::uint64_t step = 1; step <= 3; ++step) train(step);
  const std::size_t before = allocations();
  for (std::uint64_t step = 4; step <= 20; ++step) train(step);
  EXPECT_EQ(allocations(), before);
}

INSTANTIATE_TEST_SUITE_P(Optimizer, SteadyState, ::testing::ValuesIn(testing::single_weight_rules()),
                         [](const auto& test) { return testing::test_name(test.param); });
INSTANTIATE_TEST_SUITE_P(OfAPlugin, SteadyState, ::testing::Values(MAILGRAD_TEST_PLUGINS "/own_momentum.so"));

} // namespace
} // namespace mailgrad
