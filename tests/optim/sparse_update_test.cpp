#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <mailgrad/optim/optimizer.hpp>

#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;

const std::vector<std::int32_t> rows{2, 0, 2};
const std::vector<float> values{1, 2, 10, 20, 100, 200};

/// A table of three rows of two, all 0.
sparse_update on(std::vector<float>& w, std::uint64_t step = 1) {
  if (w.empty()) w.assign(6, 0);
  return {.weights = w, .width = 2, .rows = rows, .values = values, .step = step, .row_end = 3};
}

TEST(SparseUpdate, AddsEveryRowWhereItBelongs) {
  std::vector<float> w;
  make_optimizer({.learning_rate = 1}, 6)->update_rows(host_stream{}, on(w));
  EXPECT_THAT(w, ElementsAre(-10, -20, 0, 0, -101, -202));
}

TEST(SparseUpdate, CountsWithItsScale) {
  std::vector<float> w;
  sparse_update half = on(w);
  half.scale = 0.5F;
  make_optimizer({.learning_rate = 1}, 6)->update_rows(host_stream{}, half);
  EXPECT_THAT(w, ElementsAre(-5, -10, 0, 0, -50.5F, -101));
}

TEST(SparseUpdate, UpdatesARepeatedRowOnceFromItsSum) {
  const auto o = make_optimizer({.rule = momentum_options{.momentum = 0.5}, .learning_rate = 1}, 6);
  std::vector<float> w;
  o->update_rows(host_stream{}, on(w));
  EXPECT_THAT(w, ElementsAre(-10, -20, 0, 0, -101, -202));
  EXPECT_THAT(o->state().front().values, ElementsAre(10, 20, 0, 0, 101, 202));
}

TEST(SparseUpdate, IsLazyWithRowsThatNoGradientTouches) {
  const auto o = make_optimizer({.rule = momentum_options{.momentum = 0.5}, .learning_rate = 1}, 6);
  std::vector<float> w;
  o->update_rows(host_stream{}, on(w));
  const std::vector<std::int32_t> only_first{0};
  const std::vector<float> zero{0, 0};
  sparse_update next = on(w, 2);
  next.rows = only_first;
  next.values = zero;
  o->update_rows(host_stream{}, next);
  EXPECT_THAT(w, ElementsAre(-15, -30, 0, 0, -101, -202));
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
  const sparse_update upper{
      .weights = w, .width = 2, .rows = rows, .values = values, .row_begin = 1, .row_end = 3};
  make_optimizer({.learning_rate = 1}, 4)->update_rows(host_stream{}, upper);
  EXPECT_THAT(w, ElementsAre(0, 0, -101, -202));
}

TEST(SparseUpdate, MatchesADenseUpdateWhenItTouchesEveryRow) {
  for (const std::string_view rule : testing::single_weight_rules()) {
    const auto sparse = make_optimizer(parse_optimizer(rule), 6);
    const auto dense = make_optimizer(parse_optimizer(rule), 6);
    const std::vector<std::int32_t> all{0, 1, 2};
    std::vector<float> w{1, 2, 3, 4, 5, 6};
    std::vector<float> v = w;
    for (std::uint64_t step = 1; step <= 3; ++step) {
      sparse->update_rows(
          host_stream{},
          {.weights = w, .width = 2, .rows = all, .values = values, .step = step, .row_end = 3});
      const scaled_gradient one{values.data()};
      dense->update(host_stream{}, {v, v, {&one, 1}, step});
    }
    EXPECT_EQ(w, v) << rule;
  }
}

TEST(SparseUpdate, ChangesNothingWhenItDoesNotFit) {
  const auto o = make_optimizer({.learning_rate = 1}, 6);
  std::vector<float> w(6, 1);
  sparse_update beyond = on(w);
  beyond.first = 1;
  EXPECT_THROW(o->update_rows(host_stream{}, beyond), shape_error);
  sparse_update short_of_values = on(w);
  short_of_values.values = short_of_values.values.first(5);
  EXPECT_THROW(o->update_rows(host_stream{}, short_of_values), shape_error);
  EXPECT_THROW(o->update_rows(host_stream{}, on(w, 0)), std::invalid_argument);
  EXPECT_EQ(w, std::vector<float>(6, 1));
}

} // namespace
} // namespace mailgrad
