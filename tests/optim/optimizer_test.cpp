#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatEq;

constexpr std::uint64_t several_steps = 5;

std::vector<float> wave(std::size_t n, int seed) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = static_cast<float>((static_cast<int>(i) * 37 + seed * 101) % 29 - 14) / 9;
  return values;
}

std::unique_ptr<optimizer> make(std::string_view text, std::size_t size) {
  return make_optimizer(parse_optimizer(text), size);
}

/// One step from one gradient, in place.
void step_on(optimizer& o, std::span<float> w, std::span<const float> g, std::uint64_t step,
             std::size_t first = 0) {
  const scaled_gradient one{g.data()};
  o.update(host_stream{}, {w, w, {&one, 1}, step, first});
}

/// Properties that hold for each rule.
class EveryOptimizer : public ::testing::TestWithParam<std::string_view> {};

TEST_P(EveryOptimizer, GivesTheSameBitsInPlaceAndIntoASpare) {
  const std::size_t n = 1003;
  const auto in_place = make(GetParam(), n);
  const auto apart = make(GetParam(), n);
  std::vector<float> w = wave(n, 1);
  std::vector<float> old_version = w;
  std::vector<float> new_version(n);
  for (std::uint64_t step = 1; step <= several_steps; ++step) {
    const std::vector<float> g = wave(n, static_cast<int>(step));
    step_on(*in_place, w, g, step);
    const scaled_gradient one{g.data()};
    apart->update(host_stream{}, {old_version, new_version, {&one, 1}, step});
    old_version.swap(new_version);
    ASSERT_EQ(w, old_version) << "step " << step;
  }
}

TEST_P(EveryOptimizer, GivesTheSameBitsHoweverTheShardIsCut) {
  const std::size_t n = 1003;
  const std::size_t cut = 411;
  const auto whole = make(GetParam(), n);
  const auto pieces = make(GetParam(), n);
  std::vector<float> w = wave(n, 1);
  std::vector<float> v = w;
  for (std::uint64_t step = 1; step <= several_steps; ++step) {
    const std::vector<float> g = wave(n, static_cast<int>(step));
    step_on(*whole, w, g, step);
    step_on(*pieces, std::span(v).subspan(cut), std::span(g).subspan(cut), step, cut);
    step_on(*pieces, std::span(v).first(cut), std::span(g).first(cut), step);
    ASSERT_EQ(w, v) << "step " << step;
  }
}

TEST_P(EveryOptimizer, TakesTheMeanOfSeveralGradients) {
  const std::size_t n = 300;
  const std::vector<float> a = wave(n, 1);
  const std::vector<float> b = wave(n, 2);
  const std::vector<float> c = wave(n, 3);
  std::vector<float> mean(n);
  for (std::size_t i = 0; i < n; ++i) mean[i] = (a[i] + b[i] + c[i]) / 3;
  const scaled_gradient all[] = {{a.data(), 1.0F / 3}, {b.data(), 1.0F / 3}, {c.data(), 1.0F / 3}};
  std::vector<float> w = wave(n, 4);
  std::vector<float> expected = w;
  const auto of_three = make(GetParam(), n);
  const auto of_mean = make(GetParam(), n);
  for (std::uint64_t step = 1; step <= several_steps; ++step) {
    of_three->update(host_stream{}, {w, w, all, step});
    step_on(*of_mean, expected, mean, step);
  }
  for (std::size_t i = 0; i < n; ++i) {
    // Where the mean is next to nothing, an adaptive rule has the direction from its rounding.
    if (std::abs(mean[i]) > 1e-3F) {
      EXPECT_NEAR(w[i], expected[i], 1e-6 * (1 + std::abs(expected[i]))) << i;
    }
  }
}

TEST_P(EveryOptimizer, GivesTheSameBitsFromASumOfTheFirstGradients) {
  const std::size_t n = 1003;
  const float share = 1.0F / 3;
  const auto of_all = make(GetParam(), n), of_sums = make(GetParam(), n), of_one = make(GetParam(), n);
  std::vector<float> w = wave(n, 4), v = w, u = w;
  for (std::uint64_t step = 1; step <= several_steps; ++step) {
    std::vector<std::vector<float>> g;
    for (int i = 0; i < 3; ++i) g.push_back(wave(n, 10 * static_cast<int>(step) + i));
    const scaled_gradient all[] = {{g[0].data(), 0.7F}, {g[1].data(), 1}, {g[2].data(), 0.3F}};
    of_all->update(host_stream{}, {w, w, all, step, 0, 1, share});
    std::vector<float> sum(n);
    begin_sum(host_stream{}, 0.7F, g[0], sum);
    add_to_sum(host_stream{}, 1, g[1], sum);
    const scaled_gradient two[] = {{sum.data(), 1}, {g[2].data(), 0.3F}};
    of_sums->update(host_stream{}, {v, v, two, step, 0, 1, share});
    ASSERT_EQ(v, w) << "step " << step;
    add_to_sum(host_stream{}, 0.3F, g[2], sum);
    const scaled_gradient one{sum.data(), 1};
    of_one->update(host_stream{}, {u, u, {&one, 1}, step, 0, 1, share});
    ASSERT_EQ(u, w) << "step " << step;
  }
}

TEST_P(EveryOptimizer, ContinuesFromItsStateAsIfNothingHadHappened) {
  const std::size_t n = 50;
  const auto before = make(GetParam(), n);
  const auto after = make(GetParam(), n);
  std::vector<float> w = wave(n, 1);
  for (std::uint64_t step = 1; step <= several_steps; ++step) step_on(*before, w, wave(n, 2), step);
  const std::vector<optimizer_state> saved = before->state();
  const std::vector<optimizer_state> restored = after->state();
  ASSERT_EQ(saved.size(), restored.size());
  for (std::size_t i = 0; i < saved.size(); ++i) {
    EXPECT_EQ(saved[i].name, restored[i].name);
    ASSERT_EQ(saved[i].values.size(), n);
    std::ranges::copy(saved[i].values, restored[i].values.begin());
  }
  std::vector<float> v = w;
  step_on(*before, w, wave(n, 3), several_steps + 1);
  step_on(*after, v, wave(n, 3), several_steps + 1);
  EXPECT_EQ(w, v);
}

TEST_P(EveryOptimizer, TakesAShardOfNothing) {
  const auto o = make(GetParam(), 0);
  EXPECT_NO_THROW(o->update(host_stream{}, {}));
}

TEST_P(EveryOptimizer, ChangesNothingWhenTheUpdateDoesNotFit) {
  const auto o = make(GetParam(), 8);
  std::vector<float> w(8, 1);
  std::vector<float> shorter(7);
  const std::vector<float> g(8, 1);
  const scaled_gradient one{g.data()};
  EXPECT_THROW(o->update(host_stream{}, {w, shorter, {&one, 1}, 1}), shape_error);
  EXPECT_THROW(step_on(*o, w, g, 1, 1), shape_error);
  EXPECT_THROW(step_on(*o, w, g, 0), std::invalid_argument);
  EXPECT_THAT(w, Each(1.0F));
  for (const optimizer_state& s : o->state()) EXPECT_THAT(s.values, Each(0.0F)) << s.name;
}

TEST_P(EveryOptimizer, SaysThatItsStateIsNotOnAGpu) {
  const auto o = make(GetParam(), 8);
  std::vector<float> w(8, 1);
  const scaled_gradient one{w.data()};
  EXPECT_THROW(o->update(cuda_stream{}, {w, w, {&one, 1}, 1}), device_error);
  EXPECT_THROW(o->update_rows(cuda_stream{}, {}), device_error);
}

INSTANTIATE_TEST_SUITE_P(Optimizer, EveryOptimizer, ::testing::ValuesIn(testing::single_weight_rules()),
                         [](const auto& test) { return testing::test_name(test.param); });
INSTANTIATE_TEST_SUITE_P(OfAPlugin, EveryOptimizer,
                         ::testing::Values(MAILGRAD_TEST_PLUGINS "/own_sgd.so",
                                           MAILGRAD_TEST_PLUGINS "/own_momentum.so"));

TEST(Optimizer, KeepsTheMomentumOfGradientsWhenNoneCome) {
  const auto o = make_optimizer({.rule = momentum_options{.momentum = 0.5}, .learning_rate = 1}, 1);
  std::vector<float> w{0};
  step_on(*o, w, std::vector<float>{1}, 1);
  o->update(host_stream{}, {w, w, {}, 2});
  EXPECT_THAT(w, ElementsAre(-1.5F));
}

TEST(Optimizer, MovesByTheLearningRateInTheFirstStepOfAdam) {
  const auto o = make_optimizer({.rule = adam_options{}, .learning_rate = 0.25}, 3);
  std::vector<float> w{0, 0, 0};
  step_on(*o, w, std::vector<float>{1000, -0.01F, 0}, 1);
  EXPECT_THAT(w, ElementsAre(FloatEq(-0.25F), ::testing::FloatNear(0.25F, 1e-6F), 0.0F));
}

TEST(Optimizer, DecaysWeightsApartFromTheGradientOrWithinIt) {
  const std::vector<float> no_gradient{0};
  std::vector<float> w{2};
  step_on(*make_optimizer({.learning_rate = 0.5, .weight_decay = 0.1}, 1), w, no_gradient, 1);
  EXPECT_THAT(w, ElementsAre(FloatEq(1.9F)));
  w = {2};
  step_on(*make_optimizer({.rule = adam_options{}, .learning_rate = 0.5, .l2 = 0.1}, 1), w, no_gradient, 1);
  EXPECT_THAT(w, ElementsAre(FloatEq(1.5F)));
}

TEST(Optimizer, FollowsItsSchedule) {
  const optimizer_options options{.learning_rate = 1, .schedule = parse_schedule("step:every=2,factor=0.5")};
  const auto o = make_optimizer(options, 1);
  std::vector<float> w{0};
  for (std::uint64_t step = 1; step <= 4; ++step) step_on(*o, w, std::vector<float>{1}, step);
  EXPECT_THAT(w, ElementsAre(-3.0F));
  EXPECT_EQ(o->learning_rate(3), 0.5);
}

// The first update of its state, whose bias correction makes it a step of the learning rate; the third of the
// weights.
TEST(Optimizer, TakesTheScheduleFromTheWeightsAndTheBiasCorrectionFromItsState) {
  const optimizer_options options{
      .rule = adam_options{}, .learning_rate = 1, .schedule = parse_schedule("step:every=2,factor=0.5")};
  const std::vector<float> g{3};
  const scaled_gradient one{g.data()};
  update_number step;
  step.of_weights = 3;
  step.of_state = 1;
  std::vector<float> w{0};
  make_optimizer(options, 1)->update(host_stream{}, {w, w, {&one, 1}, step});
  EXPECT_THAT(w, ElementsAre(FloatEq(-0.5F)));
  const std::int32_t row = 0;
  w = {0};
  make_optimizer(options, 1)
      ->update_rows(host_stream{},
                    {.weights = w, .width = 1, .rows = {&row, 1}, .values = g, .step = step, .row_end = 1});
  EXPECT_THAT(w, ElementsAre(FloatEq(-0.5F)));
}

TEST(Optimizer, RefusesOptionsThatMakeNoSense) {
  EXPECT_THROW(make_optimizer({.learning_rate = -1}, 4), std::invalid_argument);
}

using ::testing::IsEmpty;

struct gradient_rows {
  std::vector<std::int32_t> rows;
  std::vector<float> values;
};

/// Of a table of 10 rows of 2, those from 4 to 7.
sparse_update on_shard(const gradient_rows& g, std::vector<float>& weights) {
  weights.assign(8, 0);
  return {.weights = weights, .width = 2, .rows = g.rows, .values = g.values, .row_begin = 4, .row_end = 8};
}

TEST(RowSum, PicksTheRowsOfItsShardAndCountsThemFromItsBegin) {
  const gradient_rows g{{9, 4, 3, 7}, {1, 2, 3, 4, 5, 6, 7, 8}};
  std::vector<float> w;
  row_sum sum;
  const row_list all = sum.as_they_come(on_shard(g, w));
  EXPECT_THAT(all.rows, ElementsAre(0, 3));
  EXPECT_THAT(all.values, ElementsAre(3, 4, 7, 8));
}

TEST(RowSum, TakesAShardThatHasNoRowOfTheTable) {
  const gradient_rows g{{5, 6}, {1, 2, 3, 4}};
  row_sum sum;
  const sparse_update nothing{.width = 2, .rows = g.rows, .values = g.values, .row_begin = 5, .row_end = 5};
  EXPECT_THAT(sum.as_they_come(nothing).rows, IsEmpty());
  EXPECT_THAT(sum.distinct(nothing).rows, IsEmpty());
}

TEST(RowSum, AddsRowsThatRepeat) {
  const gradient_rows g{{5, 6, 5, 5}, {1, 2, 3, 4, 10, 20, 100, 200}};
  std::vector<float> w;
  row_sum sum;
  for (int again = 0; again < 2; ++again) {
    const row_list distinct = sum.distinct(on_shard(g, w));
    EXPECT_THAT(distinct.rows, ElementsAre(1, 2));
    EXPECT_THAT(distinct.values, ElementsAre(111, 222, 3, 4));
  }
  EXPECT_THAT(sum.as_they_come(on_shard(g, w)).rows, ElementsAre(1, 2, 1, 1));
}

TEST(RowSum, EndsAtANegativeRow) {
  const gradient_rows g{{5, -1, 6}, {1, 2, 3, 4, 5, 6}};
  std::vector<float> w;
  row_sum sum;
  EXPECT_THAT(sum.as_they_come(on_shard(g, w)).rows, ElementsAre(1));
  EXPECT_THAT(sum.distinct(on_shard(g, w)).rows, ElementsAre(1));
  EXPECT_THAT(sum.distinct(on_shard({{}, {}}, w)).rows, IsEmpty());
}

TEST(RowSum, RefusesShapesThatDoNotFit) {
  const gradient_rows short_of_values{{5, 6}, {1, 2, 3}};
  const gradient_rows fitting{{5}, {1, 2}};
  std::vector<float> w;
  row_sum sum;
  EXPECT_THROW(sum.distinct(on_shard(short_of_values, w)), shape_error);
  EXPECT_THROW(sum.as_they_come(on_shard(short_of_values, w)), shape_error);
  sparse_update taller = on_shard(fitting, w);
  taller.row_end = 9;
  EXPECT_THROW(sum.distinct(taller), shape_error);
  sparse_update reversed = on_shard(fitting, w);
  reversed.row_end = 3;
  EXPECT_THROW(sum.distinct(reversed), shape_error);
}

} // namespace
} // namespace mailgrad
