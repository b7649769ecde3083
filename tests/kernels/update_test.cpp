#include <mailgrad/kernels/update.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <span>

namespace mailgrad {
namespace {

using testing::Each, testing::ElementsAre, testing::FloatEq, testing::expect_refused;
using floats = std::vector<float>;
using row_numbers = std::vector<std::uint32_t>;

/// Two steps of `rule` on one weight of 1 with gradients 2 and -1; returns the weight and the states.
floats two_steps(const update_rule& rule, std::size_t states, const weight_penalty& penalty = {}) {
  floats w{1}, memory(states);
  std::vector<float*> state;
  for (float& s : memory) state.push_back(&s);
  for (const float g : {2.0F, -1.0F}) {
    const scaled_gradient one{&g};
    update(host_stream{}, rule, penalty, {w, w, {&one, 1}}, state);
  }
  w.insert(w.end(), memory.begin(), memory.end());
  return w;
}

TEST(Update, DescendsByTheGradient) { EXPECT_THAT(two_steps(sgd_update{0.25F}, 0), ElementsAre(0.75F)); }

TEST(Update, CollectsAVelocity) {
  // v = 2, then 0.5 * 2 - 1 = 0
  EXPECT_THAT(two_steps(momentum_update{0.25F, 0.5F}, 1), ElementsAre(0.5F, 0));
}

TEST(Update, LooksAheadAlongTheVelocity) {
  // 1 - 0.25 * (2 + 0.5 * 2), then minus 0.25 * (-1 + 0.5 * 0)
  EXPECT_THAT(two_steps(nesterov_update{0.25F, 0.5F}, 1), ElementsAre(0.5F, 0));
}

TEST(Update, DividesByTheRootOfTheSumOfSquares) {
  const float w = 1 - 0.5F * 2 / (2 + 0.1F) + 0.5F / (std::sqrt(5.0F) + 0.1F);
  EXPECT_THAT(two_steps(adagrad_update{0.5F, 0.1F}, 1), ElementsAre(FloatEq(w), 5));
}

TEST(Update, DividesByTheRootOfTheMeanSquare) {
  const float w = 1 - 0.5F * 2 / (std::sqrt(2.0F) + 0.1F) + 0.5F / (std::sqrt(1.5F) + 0.1F);
  EXPECT_THAT(two_steps(rmsprop_update{0.5F, 0.5F, 0.5F, 0.1F}, 1), ElementsAre(FloatEq(w), 1.5F));
}

TEST(Update, DividesTheMeanGradientByTheRootOfTheMeanSquare) {
  // m = 1, then 0; v = 1, then 0.75 + 0.25 = 1
  const adam_update rule{0.25F, 0.5F, 0.5F, 0.75F, 0.25F, 2, 0.5F};
  EXPECT_THAT(two_steps(rule, 2), ElementsAre(FloatEq(1 - 0.25F / 2.5F), 0, 1));
}

TEST(Update, DrawsWeightsTowardsZeroFromWhereTheyWere) {
  // The gradient is 2 + 0.5 * 1; the weight loses 0.1 * 1 and 0.25 * 2.5. Then likewise.
  const float first = 1 - 0.1F - 0.25F * 2.5F;
  const float second = first - 0.1F * first - 0.25F * (-1 + 0.5F * first);
  EXPECT_THAT(two_steps(sgd_update{0.25F}, 0, {0.5F, 0.1F}), ElementsAre(FloatEq(second)));
}

TEST(Update, SumsGradientsAcrossTheTilesItWorksIn) {
  for (const std::size_t n : {0U, 1U, 7U, 127U, 128U, 129U, 1000U}) {
    floats a(n), b(n);
    for (std::size_t i = 0; i < n; ++i) {
      a[i] = static_cast<float>(i);
      b[i] = static_cast<float>(n);
    }
    floats w(n, 1);
    const scaled_gradient both[] = {{a.data(), 2}, {b.data(), -0.5F}};
    update(host_stream{}, sgd_update{1}, {}, {w, w, both}, {});
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(w[i], 1 - 2 * a[i] + 0.5F * b[i]) << i << " of " << n;
  }
}

TEST(Update, SaysThatThereIsNoGpu) {
  const auto on_gpu = [](device d) { return d.kind == device_kind::cuda; };
  if (std::ranges::any_of(available_devices(), on_gpu)) GTEST_SKIP() << "there is a GPU";
  floats w(4, 1);
  EXPECT_THROW(update(cuda_stream{}, sgd_update{1}, {}, {w, w, {}}, {}), device_error);
}

TEST(UpdateRows, TouchesOnlyTheRowsItIsGiven) {
  floats w(8, 1), velocity(8);
  float* const state[] = {velocity.data()};
  const row_numbers rows{3, 1};
  const floats values{1, 2, 3, 4};
  update_rows(host_stream{}, momentum_update{1, 0.5F}, {}, {w, 2, rows, values, 2}, state);
  EXPECT_THAT(w, ElementsAre(1, 1, -5, -7, 1, 1, -1, -3));
  EXPECT_THAT(velocity, ElementsAre(0, 0, 6, 8, 0, 0, 2, 4));
}

TEST(UpdateRows, RunOnlyWhereTheirKindDoesAndWithTheirStates) {
  floats w(8, 1);
  const auto update_summed = [&](const stream& s, const update_rule& rule, std::int32_t end) {
    update_summed_rows(s, rule, {}, {w, 2, 0, end, {}, nullptr}, {});
  };
  EXPECT_THROW(update_rows(cuda_stream{}, sgd_update{1}, {}, {w, 2, {}, {}}, {}), device_error);
  EXPECT_THROW(update_summed(host_stream{}, sgd_update{1}, 1), device_error);
  EXPECT_THROW(update_summed(cuda_stream{}, sgd_update{1}, 9), shape_error);
  EXPECT_THROW(update_summed(cuda_stream{}, momentum_update{1, 0}, 1), shape_error) << "without its state";
  EXPECT_THAT(w, Each(1.0F));
}

TEST(Refusals, OfUpdatesThatDoNotFit) {
  floats weights(6, 1), fewer(5, 1), state(6);
  const std::vector<float*> one_state{state.data()};
  const update_rule sgd = sgd_update{0.1F}, momentum = momentum_update{0.1F, 0.9F};
  const floats values(6, 1);
  const scaled_gradient one{values.data()};
  const auto run = [&](const update_rule& rule, floats& updated, std::span<float* const> states) {
    update(host_stream{}, rule, {}, {weights, updated, {&one, 1}}, states);
  };
  expect_refused<shape_error>("update: 6 against 5", [&] { run(sgd, fewer, {}); });
  expect_refused<shape_error>("1 states for a rule of 0", [&] { run(sgd, weights, one_state); });
  expect_refused<shape_error>("0 states for a rule of 1", [&] { run(momentum, weights, {}); });
  const row_numbers first{0}, behind{0, 2}, twice{0, 0};
  const auto expect_rows_refused = [&](const char* words, const row_update& work) {
    expect_refused<shape_error>(words, [&] { update_rows(host_stream{}, sgd, {}, work, {}); });
  };
  expect_rows_refused("row 2 of a table of 2", {weights, 3, behind, values});
  expect_rows_refused("2 values for 1 rows of 3", {weights, 3, first, std::span(values).first(2)});
  expect_rows_refused("row 0 of a table of 0", {weights, 0, first, {}});
  constexpr std::size_t half_of_all = (~std::size_t{0} >> 1) + 1; // twice as much wraps
  expect_rows_refused("0 values for 2 rows", {{}, half_of_all, twice, {}});
  EXPECT_THAT(weights, Each(1.0F)) << "a refusal comes before any change";
  EXPECT_THAT(fewer, Each(1.0F));
}

} // namespace
} // namespace mailgrad
