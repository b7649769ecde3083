#include <mailgrad/tests/optim/plugins/custom_rules.hpp>

#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

// A rule of one's own beside the built-in one of the same formula.

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using testing::own_adam;
using testing::own_momentum;
using testing::own_sgd;

constexpr std::size_t size = 2500; // several tiles and a rest

std::vector<float> wave(int seed) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i)
    values[i] = static_cast<float>((static_cast<int>(i) * 37 + seed * 101) % 29 - 14) / 9;
  return values;
}

/// The weights after a few steps, each from `gradients` gradients of different scales.
std::vector<float> trained(const optimizer_options& options, std::size_t gradients) {
  const auto o = make_optimizer(options, size);
  std::vector<float> w = wave(0);
  const std::vector<float> values[] = {wave(1), wave(2), wave(3)};
  for (std::uint64_t step = 1; step <= 5; ++step) {
    std::vector<scaled_gradient> sum;
    for (std::size_t i = 0; i < gradients; ++i)
      sum.push_back({values[i].data(), 1.0F / static_cast<float>(step + i)});
    o->update(host_stream{}, {w, w, sum, step});
  }
  return w;
}

/// Where a formula adds two products, which of them is fused with the sum is the compiler's choice.
void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 1e-6F * std::max(1.0F, std::abs(b[i]))) << i;
}

TEST(CustomUpdate, GivesTheBitsOfTheSameFormulaBuiltIn) {
  for (const std::size_t gradients : {0U, 1U, 3U})
    EXPECT_EQ(trained({.rule = make_custom_rule(rule_table<own_sgd>), .learning_rate = 0.1}, gradients),
              trained({.rule = sgd_options{}, .learning_rate = 0.1}, gradients));
}

TEST(CustomUpdate, FollowsScheduleAndPenaltiesAsEveryRule) {
  optimizer_options ours{.rule = momentum_options{},
                         .learning_rate = 0.1,
                         .schedule = parse_schedule("step:every=2,factor=0.5"),
                         .l2 = 0.01,
                         .weight_decay = 0.02};
  const std::vector<float> expected = trained(ours, 2);
  ours.rule = make_custom_rule(rule_table<own_momentum>);
  expect_near(trained(ours, 2), expected);
}

TEST(CustomUpdate, KnowsTheStepOfABiasCorrection) {
  expect_near(trained({.rule = make_custom_rule(rule_table<own_adam>)}, 1),
              trained({.rule = adam_options{}}, 1));
}

/// Moves by the learning rate, whatever the size of the gradient: a row updated twice would move twice.
struct sign_descent {
  static constexpr const char* name = "sign";
  static constexpr std::size_t states = 0;

  float learning_rate;
  void operator()(float& w, float g) const { w -= learning_rate * static_cast<float>((g > 0) - (g < 0)); }
};

TEST(CustomUpdate, GivesTheSameWhetherTheRulePreparesItsGradientsOrNot) {
  static mailgrad_rule prepared_for = rule_table<own_momentum>;
  prepared_for.prepares = 0;
  ASSERT_EQ(rule_table<own_momentum>.prepares, 1U);
  for (const double l2 : {0.0, 0.1})
    for (const double decay : {0.0, 0.2})
      for (const std::size_t gradients : {0U, 1U, 3U}) {
        optimizer_options options{.rule = make_custom_rule(rule_table<own_momentum>),
                                  .learning_rate = 0.1,
                                  .l2 = l2,
                                  .weight_decay = decay};
        const std::vector<float> itself = trained(options, gradients);
        options.rule = make_custom_rule(prepared_for);
        expect_near(itself, trained(options, gradients));
      }
}

TEST(CustomUpdate, CallsARuleThatPreparesOnceForAGradient) {
  static std::size_t calls = 0;
  static mailgrad_rule counted = rule_table<own_sgd>;
  counted.update = [](const mailgrad_rule_step* s) {
    ++calls;
    rule_table<own_sgd>.update(s);
  };
  const optimizer_options options{
      .rule = make_custom_rule(counted), .learning_rate = 0.1, .l2 = 0.5, .weight_decay = 0.1};
  const auto o = make_optimizer(options, size);
  std::vector<float> w = wave(0);
  const std::vector<float> g = wave(1);
  const scaled_gradient clipped{g.data(), 0.5F};
  calls = 0;
  o->update(host_stream{}, {w, w, {&clipped, 1}, 1});
  EXPECT_EQ(calls, 1U);
}

/// Counts how often it is made, and knows what of. Its weights become the number of the step.
struct counted_rule {
  static constexpr const char* name = "counted";
  static constexpr std::size_t states = 0;
  static constexpr mailgrad_rule_setting settings[] = {{"share", 0.5, 0, 1}};
  static inline std::vector<std::array<double, 3>> made_of;

  float step;
  explicit counted_rule(const mailgrad_rule_step& s) : step(static_cast<float>(s.step)) {
    made_of.push_back({static_cast<double>(s.step), s.learning_rate, s.settings[0]});
    EXPECT_EQ(s.weights, nullptr);
    EXPECT_EQ(s.updated, nullptr);
    EXPECT_EQ(s.gradient, nullptr);
    EXPECT_EQ(s.states, nullptr);
    EXPECT_EQ(s.count, 0U);
  }
  void operator()(float& w, float) const { w = step; }
};

TEST(CustomUpdate, MakesARuleOnceForAStepAndAgainForAnother) {
  optimizer_options options{
      .rule = make_custom_rule(rule_table<counted_rule>), .learning_rate = 0.1, .l2 = 0.5};
  const auto first = make_optimizer(options, size);
  std::get<custom_rule>(options.rule).settings[0] = 0.25;
  const auto other = make_optimizer(options, size);
  std::vector<float> w = wave(0);
  const std::vector<float> g = wave(1);
  const scaled_gradient gradients[] = {{g.data(), 1}, {g.data(), 1}}; // their sum is made a range at a time
  const auto update = [&](optimizer& o, std::uint64_t step, double scale) {
    o.update(host_stream{}, {w, w, gradients, step, 0, scale});
    EXPECT_EQ(w.front(), static_cast<float>(step));
    EXPECT_EQ(w.back(), static_cast<float>(step));
  };
  counted_rule::made_of.clear();
  update(*first, 1, 1);
  update(*first, 2, 1);
  update(*other, 2, 1);
  update(*first, 3, 1);
  update(*other, 3, 0.5);
  EXPECT_THAT(counted_rule::made_of,
              ElementsAre(ElementsAre(1, 0.1, 0.5), ElementsAre(2, 0.1, 0.5), ElementsAre(2, 0.1, 0.25),
                          ElementsAre(3, 0.1, 0.5), ElementsAre(3, 0.05, 0.25)));
}

TEST(CustomUpdate, RefusesRowsThatTheTableDoesNotHave) {
  const custom_rule mine = make_custom_rule(rule_table<own_sgd>);
  const custom_update rule{.table = mine.table, .settings = mine.settings, .learning_rate = 1};
  std::vector<float> w(8, 1.0F);
  const std::vector<float> values(4, 1.0F);
  for (const std::vector<std::uint32_t>& rows : {std::vector<std::uint32_t>{0, 4}, {0, 1, 2}})
    EXPECT_THROW(update_rows(host_stream{}, rule, {}, {w, 2, rows, values}, {}), shape_error);
  EXPECT_THAT(w, ::testing::Each(1.0F));
}

TEST(CustomUpdate, SeesARepeatedRowOnceFromItsSum) {
  const std::vector<std::int32_t> rows{2, 0, 2, 5};
  const std::vector<float> values{1, -2, 10, 20, -100, 200, 7, 7}; // row 5 is another shard's
  std::vector<float> w(6);
  const auto o = make_optimizer({.rule = make_custom_rule(rule_table<sign_descent>), .learning_rate = 1}, 6);
  o->update_rows(host_stream{}, {.weights = w, .width = 2, .rows = rows, .values = values, .row_end = 3});
  EXPECT_THAT(w, ElementsAre(-1, -1, 0, 0, 1, -1));
}

TEST(CustomUpdate, UpdatesRowsAsItsBuiltInTwin) {
  const std::vector<std::int32_t> rows{2, 0, 2};
  const std::vector<float> values{1, 2, 10, 20, 100, 200};
  const auto after = [&](const optimizer_options& options) {
    const auto o = make_optimizer(options, 10);
    std::vector<float> w(6, 1);
    for (std::uint64_t step = 1; step <= 3; ++step)
      o->update_rows(host_stream{}, {.weights = w,
                                     .width = 2,
                                     .rows = rows,
                                     .values = values,
                                     .scale = 0.5F,
                                     .step = step,
                                     .first = 4,
                                     .row_end = 3});
    w.insert(w.end(), o->state()[0].values.begin(), o->state()[0].values.end());
    return w;
  };
  expect_near(after({.rule = make_custom_rule(rule_table<own_momentum>)}),
              after({.rule = momentum_options{}}));
}

TEST(CustomUpdate, UpdatesManyRowsOfAnyWidthAndNoOther) {
  constexpr std::size_t height = 401;
  for (const std::size_t width : {1U, 3U, 128U, 129U, 300U}) {
    std::vector<std::int32_t> rows;
    for (std::int32_t i = 0; i < 300; ++i) rows.push_back(i * 7 % 400); // row 400 is never among them
    std::vector<float> values;
    for (std::size_t i = 0; i < rows.size() * width; ++i) values.push_back(static_cast<float>(i % 23) - 11);
    const auto after = [&](const optimizer_options& options) {
      const auto o = make_optimizer(options, height * width);
      std::vector<float> w(height * width, 1);
      for (std::uint64_t step = 1; step <= 3; ++step)
        o->update_rows(host_stream{}, {.weights = w,
                                       .width = width,
                                       .rows = rows,
                                       .values = values,
                                       .scale = 0.5F,
                                       .step = step,
                                       .row_end = static_cast<std::int32_t>(height)});
      w.insert(w.end(), o->state()[0].values.begin(), o->state()[0].values.end());
      return w;
    };
    const std::vector<float> w = after({.rule = make_custom_rule(rule_table<own_momentum>)});
    expect_near(w, after({.rule = momentum_options{}}));
    EXPECT_EQ(w[height * width - 1], 1) << "a row that has no gradient";
  }
}

} // namespace
} // namespace mailgrad
