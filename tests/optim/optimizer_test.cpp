#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/optim/clip.hpp>
#include <mailgrad/optim/custom_rule.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/schedule.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/data/allocations.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mailgrad {
namespace {

using namespace ::testing;
using testing::expect_refused;
using testing::words_of_refusal;

TEST(OptimizerOptions, AreReadByTheNamesTheyList) {
  EXPECT_EQ(optimizer_names().size(), 12U);
  for (const std::string_view wanted : optimizer_names()) EXPECT_EQ(name(parse_optimizer(wanted)), wanted);
}

TEST(OptimizerOptions, TakeTheRatesThatPyTorchTakesUnlessTheUserOverrulesThem) {
  for (const auto& [text, rate] :
       {std::pair{"sgd", 1e-3}, {"adagrad", 1e-2}, {"rmsprop", 1e-2}, {"adamw", 1e-3}})
    EXPECT_EQ(base_learning_rate(parse_optimizer(text)), rate) << text;
  EXPECT_EQ(base_weight_decay(parse_optimizer("adam")), 0.0);
  optimizer_options o = parse_optimizer("adamw");
  EXPECT_EQ(base_weight_decay(o), 1e-2);
  o.learning_rate = 0.5;
  o.weight_decay = 0.0;
  EXPECT_EQ(base_learning_rate(o), 0.5);
  EXPECT_EQ(base_weight_decay(o), 0.0);
}

TEST(OptimizerOptions, ReadSettingsOfTheRule) {
  const optimizer_options o = parse_optimizer("adam:beta1=0.8,epsilon=1e-6");
  const auto& adam = std::get<adam_options>(o.rule);
  EXPECT_EQ(adam.beta1, 0.8);
  EXPECT_EQ(adam.beta2, 0.999);
  EXPECT_EQ(adam.epsilon, 1e-6);
  EXPECT_EQ(std::get<adamw_options>(parse_optimizer("adamw:beta2=0.95").rule).beta2, 0.95);
}

TEST(OptimizerOptions, NameTheNearestRule) {
  EXPECT_THAT([] { parse_optimizer("adma"); },
              ThrowsMessage<std::invalid_argument>("optimizer 'adma' is unknown; did you mean 'adam'?"));
  EXPECT_THAT([] { parse_optimizer("momentun:momentum=0.5"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'momentum'")));
  EXPECT_THROW(parse_optimizer(""), std::invalid_argument);
}

TEST(OptimizerOptions, AreCheckedWhoeverMadeThem) {
  const auto refuse = [](const optimizer_options& o, const char* option) {
    for (const bool makes : {false, true})
      EXPECT_THAT([&] { makes ? static_cast<void>(make_optimizer(o, 2)) : require_valid(o); },
                  ThrowsMessage<std::invalid_argument>(HasSubstr(option)));
  };
  EXPECT_NO_THROW(require_valid(optimizer_options{}));
  constexpr double infinite = std::numeric_limits<double>::infinity();
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), infinite, -1.0}) {
    refuse({.learning_rate = bad}, "learning rate");
    refuse({.l2 = bad}, "l2");
    refuse({.weight_decay = bad}, "weight decay");
    refuse({.clip_norm = bad}, "clip norm");
    refuse({.rule = adam_options{.beta1 = bad}}, "beta1");
  }
  refuse({.learning_rate = 1e39}, "that a float32 can hold");
  refuse({.rule = momentum_options{.momentum = 1}}, "momentum");
  refuse({.rule = adam_options{.beta2 = 1}}, "beta2");
  refuse({.schedule = {.shape = step_schedule{.every = 0}}}, "every");
  refuse({.schedule = {.shape = cosine_schedule{.total = 10}, .warmup = 10}}, "total");
}

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
  const auto in_place = make(GetParam(), n), apart = make(GetParam(), n);
  std::vector<float> w = wave(n, 1), old_version = w, new_version(n);
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
  const std::size_t n = 1003, cut = 411;
  const auto whole = make(GetParam(), n), pieces = make(GetParam(), n);
  std::vector<float> w = wave(n, 1), v = w;
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
  const std::vector<float> a = wave(n, 1), b = wave(n, 2), c = wave(n, 3);
  std::vector<float> mean(n);
  for (std::size_t i = 0; i < n; ++i) mean[i] = (a[i] + b[i] + c[i]) / 3;
  const scaled_gradient all[] = {{a.data(), 1.0F / 3}, {b.data(), 1.0F / 3}, {c.data(), 1.0F / 3}};
  std::vector<float> w = wave(n, 4), expected = w;
  const auto of_three = make(GetParam(), n), of_mean = make(GetParam(), n);
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
  const auto before = make(GetParam(), n), after = make(GetParam(), n);
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

TEST_P(EveryOptimizer, ChangesNothingWhenTheUpdateDoesNotFit) {
  const auto o = make(GetParam(), 8);
  std::vector<float> w(8, 1), shorter(7);
  const std::vector<float> g(8, 1);
  const scaled_gradient one{g.data()};
  EXPECT_THROW(o->update(host_stream{}, {w, shorter, {&one, 1}, 1}), shape_error);
  EXPECT_THROW(step_on(*o, w, g, 1, 1), shape_error);
  EXPECT_THROW(step_on(*o, w, g, 0), std::invalid_argument);
  EXPECT_THROW(o->update(cuda_stream{}, {w, w, {&one, 1}, 1}), device_error);
  EXPECT_THROW(o->update_rows(cuda_stream{}, {}), device_error);
  EXPECT_THAT(w, Each(1.0F));
  for (const optimizer_state& s : o->state()) EXPECT_THAT(s.values, Each(0.0F)) << s.name;
  EXPECT_NO_THROW(make(GetParam(), 0)->update(host_stream{}, {})) << "of a shard of nothing";
}

INSTANTIATE_TEST_SUITE_P(Optimizer, EveryOptimizer, ValuesIn(testing::single_weight_rules()),
                         [](const auto& test) { return testing::test_name(test.param); });
INSTANTIATE_TEST_SUITE_P(OfAPlugin, EveryOptimizer,
                         Values(MAILGRAD_TEST_PLUGINS "/own_sgd.so",
                                MAILGRAD_TEST_PLUGINS "/own_momentum.so"));

TEST(Optimizer, KeepsTheMomentumOfGradientsWhenNoneCome) {
  const auto o = make_optimizer({.rule = momentum_options{.momentum = 0.5}, .learning_rate = 1}, 1);
  std::vector<float> w{0};
  step_on(*o, w, std::vector<float>{1}, 1);
  o->update(host_stream{}, {w, w, {}, 2});
  EXPECT_THAT(w, ElementsAre(-1.5F));
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
  EXPECT_EQ(make_optimizer(options, 1)->learning_rate(3), 0.5);
  const std::int32_t row = 0;
  w = {0};
  make_optimizer(options, 1)
      ->update_rows(host_stream{},
                    {.weights = w, .width = 1, .rows = {&row, 1}, .values = g, .step = step, .row_end = 1});
  EXPECT_THAT(w, ElementsAre(FloatEq(-0.5F)));
}

struct gradient_rows {
  std::vector<std::int32_t> rows;
  std::vector<float> values;
};

/// Of a table of 10 rows of 2, those from 4 to 7.
sparse_update on_shard(const gradient_rows& g, std::vector<float>& weights) {
  weights.assign(8, 0);
  return {.weights = weights, .width = 2, .rows = g.rows, .values = g.values, .row_begin = 4, .row_end = 8};
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

const std::vector<std::int32_t> row_2_twice{2, 0, 2};
const std::vector<float> six_values{1, 2, 10, 20, 100, 200};

/// A table of three rows of two, all 0.
sparse_update on(std::vector<float>& w, std::uint64_t step = 1) {
  if (w.empty()) w.assign(6, 0);
  return {.weights = w, .width = 2, .rows = row_2_twice, .values = six_values, .step = step, .row_end = 3};
}

TEST(SparseUpdate, AddsEveryRowWhereItBelongsByItsScale) {
  for (const float scale : {1.0F, 0.5F}) {
    std::vector<float> w;
    sparse_update work = on(w);
    work.scale = scale;
    make_optimizer({.learning_rate = 1}, 6)->update_rows(host_stream{}, work);
    EXPECT_THAT(w, ElementsAre(-10 * scale, -20 * scale, 0, 0, -101 * scale, -202 * scale));
  }
}

TEST(SparseUpdate, UpdatesARepeatedRowOnceFromItsSum) {
  const auto o = make_optimizer({.rule = momentum_options{.momentum = 0.5}, .learning_rate = 1}, 6);
  std::vector<float> w;
  o->update_rows(host_stream{}, on(w));
  EXPECT_THAT(w, ElementsAre(-10, -20, 0, 0, -101, -202));
  EXPECT_THAT(o->state().front().values, ElementsAre(10, 20, 0, 0, 101, 202));
  const std::vector<std::int32_t> only_first{0};
  const std::vector<float> zero{0, 0};
  sparse_update next = on(w, 2);
  next.rows = only_first;
  next.values = zero;
  o->update_rows(host_stream{}, next);
  EXPECT_THAT(w, ElementsAre(-15, -30, 0, 0, -101, -202)) << "lazy with rows that no gradient touches";
}

TEST(SparseUpdate, DecaysARepeatedRowOnce) {
  std::vector<float> w(6, 1);
  const std::vector<float> zeros(6);
  sparse_update work = on(w);
  work.values = zeros;
  make_optimizer({.learning_rate = 1, .weight_decay = 0.25}, 6)->update_rows(host_stream{}, work);
  EXPECT_THAT(w, ElementsAre(0.75F, 0.75F, 1, 1, 0.75F, 0.75F));
}

TEST(SparseUpdate, FindsItsStateWhereTheTableLiesInTheShard) {
  const auto o = make_optimizer({.rule = momentum_options{}, .learning_rate = 1}, 10);
  std::vector<float> w;
  sparse_update behind = on(w);
  behind.first = 4;
  o->update_rows(host_stream{}, behind);
  EXPECT_THAT(o->state().front().values, ElementsAre(0, 0, 0, 0, 10, 20, 0, 0, 101, 202));
}

TEST(SparseUpdate, LeavesRowsOfOtherShardsAlone) {
  std::vector<float> w(4, 0);
  sparse_update upper = on(w);
  upper.row_begin = 1;
  make_optimizer({.learning_rate = 1}, 4)->update_rows(host_stream{}, upper);
  EXPECT_THAT(w, ElementsAre(0, 0, -101, -202));
}

TEST(SparseUpdate, MatchesADenseUpdateWhenItTouchesEveryRow) {
  const std::vector<std::int32_t> each{0, 1, 2};
  for (const std::string_view rule : testing::single_weight_rules()) {
    const auto sparse = make(rule, 6), dense = make(rule, 6);
    std::vector<float> w{1, 2, 3, 4, 5, 6}, v = w;
    for (std::uint64_t step = 1; step <= 3; ++step) {
      sparse_update work = on(w, step);
      work.rows = each;
      sparse->update_rows(host_stream{}, work);
      step_on(*dense, v, six_values, step);
    }
    EXPECT_EQ(w, v) << rule;
  }
}

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

INSTANTIATE_TEST_SUITE_P(Optimizer, SteadyState, ValuesIn(testing::single_weight_rules()),
                         [](const auto& test) { return testing::test_name(test.param); });
INSTANTIATE_TEST_SUITE_P(OfAPlugin, SteadyState, Values(MAILGRAD_TEST_PLUGINS "/own_momentum.so"));

TEST(SumOfSquares, IsExactWhereFloat64IsAtEverySize) {
  double expected = 0;
  std::vector<float> values;
  for (std::size_t n = 0; n < 70; ++n) {
    EXPECT_EQ(sum_of_squares(host_stream{}, values), expected) << n << " values";
    const auto x = static_cast<float>(n) - 20.5F;
    values.push_back(x);
    expected += static_cast<double>(x) * static_cast<double>(x);
  }
}

TEST(SumOfSquares, LosesAndOverflowsNothingThatFloat32Would) {
  const double square = static_cast<double>(0.1F) * static_cast<double>(0.1F);
  EXPECT_NEAR(sum_of_squares(host_stream{}, std::vector<float>(100'000, 0.1F)) / (100'000 * square), 1,
              1e-12);
  EXPECT_NEAR(sum_of_squares(host_stream{}, std::vector<float>(4, 1e30F)), 4e60, 1e54);
  double sum = 0; // where it is asked for
  sum_of_squares(host_stream{}, std::vector<float>{3, 4}, &sum);
  EXPECT_EQ(sum, 25);
}

TEST(ClipFactor, BringsALongGradientDownToTheMaximum) {
  EXPECT_FLOAT_EQ(clip_factor(10, 2.5), 0.25F);
  for (const double shorter : {1, 0}) EXPECT_EQ(clip_factor(shorter, 2), 1.0F);
  EXPECT_EQ(clip_factor(1e9, 0), 1.0F) << "0 is no maximum";
  EXPECT_TRUE(std::isnan(clip_factor(std::numeric_limits<double>::quiet_NaN(), 1)));
  EXPECT_EQ(clip_factor(std::numeric_limits<double>::infinity(), 1), 0.0F);
}

double rate(const char* text, std::uint64_t step) { return learning_rate(parse_schedule(text), 1, step); }

std::string complaint(const char* text) {
  return words_of_refusal([&] { parse_schedule(text); });
}

TEST(LearningRateSchedule, NamesTheNearestRightName) {
  EXPECT_EQ(complaint("linear"), "schedule 'linear' is unknown; known are: constant, step, cosine");
  EXPECT_THAT(complaint("cosin:total=5"), AllOf(HasSubstr("'cosin'"), HasSubstr("'cosine'")));
  EXPECT_THAT(complaint("step:evry=5"), AllOf(HasSubstr("'evry'"), HasSubstr("'every'")));
  EXPECT_THAT(complaint("step:every=0"), HasSubstr("every must be at least 1"));
  for (const char* text : {"step:factor=-1", "step:factor=nan"})
    EXPECT_THAT(complaint(text), HasSubstr("factor"));
  EXPECT_THAT(complaint("cosine"), HasSubstr("total must be more than"));
  EXPECT_THAT(complaint("cosine:total=100,warmup=100"), HasSubstr("100 steps of the warm-up"));
  EXPECT_THAT(complaint("cosine:total=-5"), HasSubstr("'-5'"));
}

TEST(LearningRateSchedule, KnowsTheLastStepWithARateAboveZero) {
  for (const char* text : {"constant", "constant:warmup=5", "step:every=10", "cosine:total=9,final=0.1"})
    EXPECT_FALSE(last_step_above_zero(parse_schedule(text))) << text;
  for (const char* text : {"cosine:total=20", "cosine:total=20,warmup=6", "step:every=9,factor=0",
                           "step:every=9,factor=0,warmup=4"}) {
    const std::uint64_t last = last_step_above_zero(parse_schedule(text)).value();
    EXPECT_GT(rate(text, last), 1e-9) << text;
    EXPECT_NEAR(rate(text, last + 1), 0, 1e-15) << text;
  }
}

TEST(LearningRateSchedule, ReadsWhatItWrites) {
  for (const char* text : {"constant", "constant:warmup=5", "step:every=500,factor=0.25",
                           "cosine:total=1000,final=0.125,warmup=100"})
    EXPECT_EQ(to_string(parse_schedule(text)), text);
}

using floats = std::vector<float>;
using integers = std::vector<std::int32_t>;

constexpr std::size_t all = ~std::size_t{0};
constexpr stream host = host_stream{};

TEST(Refusals, OfUpdatesOutsideTheShard) {
  for (const char* name : {"sgd", "adam"}) {
    const auto rule = make_optimizer(parse_optimizer(name), 6);
    floats weights(6);
    floats fewer(5);
    const auto update = [&](dense_update work) { return [&, work] { rule->update(host, work); }; };
    expect_refused({
        {"other lengths", update({.weights = weights, .updated = fewer}), "update: 6 against 5"},
        {"behind the shard", update({.weights = weights, .updated = weights, .first = 1}),
         "weights 1 to 7 of a shard of 6"},
        {"from where counting wraps", update({.weights = weights, .updated = weights, .first = all - 2}),
         "of a shard of 6"},
        {"step 0", update({.weights = weights, .updated = weights, .step = 0}), "steps count from 1"},
    });
  }
}

TEST(Refusals, OfRowsOutsideTheTable) {
  for (const char* name : {"sgd", "adam"}) {
    const auto rule = make_optimizer(parse_optimizer(name), 6);
    floats weights(6, 1);
    const floats values(6);
    const integers rows{0, 1};
    const sparse_update good{.weights = weights, .width = 3, .rows = rows, .values = values, .row_end = 2};
    const auto update = [&](auto change) {
      return [&, change] {
        sparse_update work = good;
        change(work);
        rule->update_rows(host, work);
      };
    };
    constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
    expect_refused({
        {"too few values", update([&](auto& w) { w.values = w.values.first(5); }),
         "5 values for 2 rows of 3"},
        {"a width that wraps", update([&](auto& w) { w.width = (all >> 1) + 1; }), "values for 2 rows"},
        {"fewer weights than rows", update([&](auto& w) { w.weights = w.weights.first(5); }), "5 weights"},
        {"rows that descend", update([&](auto& w) { w.row_begin = 3; }), "rows 3 to 2"},
        {"more rows than can be counted", update([&](auto& w) {
           w.row_begin = least;
           w.row_end = most;
         }),
         "6 weights"},
        {"behind the shard", update([&](auto& w) { w.first = 1; }), "weights 1 to 7 of a shard of 6"},
        {"step 0", update([&](auto& w) { w.step = 0; }), "steps count from 1"},
    });
    EXPECT_THROW(update([&](auto& w) { w.first = 1; })(), shape_error);
    EXPECT_THAT(weights, Each(1.0F));
    rule->update_rows(host, good);
  }
}

TEST(Refusals, OfVectorsOfOtherLengths) {
  const floats two(2);
  const floats three(3);
  expect_refused({
      {"inner product", [&] { inner_product(host_stream{}, three, two); }, "inner product: 3 against 2"},
      {"distance", [&] { squared_distance(host_stream{}, two, three); }, "squared distance: 2 against 3"},
  });
}

TEST(Refusals, OfRulesWithoutATable) {
  floats weights(2);
  optimizer_options nothing;
  nothing.rule = custom_rule{};
  const std::vector<std::uint32_t> rows{0};
  const weight_update dense{weights, weights, {}};
  const row_update sparse{weights, 2, rows, weights};
  expect_refused({
      {"make", [&] { make_optimizer(nothing, 2); }, "optimizer"},
      {"make from an empty table", [] { make_custom_rule({}); }, "optimizer"},
      {"update", [&] { update(host, custom_update(), {}, dense, {}); }, "no table"},
      {"update rows", [&] { update_rows(host, custom_update(), {}, sparse, {}); }, "no table"},
      {"load nothing", [] { load_plugin(""); }, "optimizer"},
  });
}

} // namespace
} // namespace mailgrad
