#include <mailgrad/tests/engine/delays/delay_samples.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>

namespace mailgrad {
namespace {

using ::testing::Each;
using testing::mean_of;
using testing::quantile_of;
using testing::steps_of;
using testing::variation_of;

constexpr std::size_t many = 200'000;

TEST(DrawnDelay, IsConstant) {
  EXPECT_THAT(steps_of("constant:2.5", 3), ::testing::ElementsAre(2.5, 2.5, 2.5));
  const delay_spec squares("constant:i^2", 4);
  EXPECT_THAT(steps_of(squares, {3}, 2), ::testing::ElementsAre(16, 16));
}

TEST(DrawnDelay, IsListed) {
  const delay_spec listed("list:1,1,4", 3);
  EXPECT_THAT(steps_of(listed, {2}, 2), ::testing::ElementsAre(4, 4));
  EXPECT_THAT(steps_of(listed, {0}, 1), ::testing::ElementsAre(1));
}

TEST(DrawnDelay, HasTheMomentsOfAnExponential) {
  const std::vector<double> all = steps_of("exp:mean=2", many);
  EXPECT_NEAR(mean_of(all), 2, 0.02);
  EXPECT_NEAR(variation_of(all), 1, 0.02);
  EXPECT_NEAR(quantile_of(all, 0.5), 2 * std::numbers::ln2, 0.02);
  EXPECT_NEAR(quantile_of(all, 0.99), 2 * std::log(100), 0.15);
}

TEST(DrawnDelay, ShiftsAnExponential) {
  const std::vector<double> all = steps_of("shifted-exp:shift=3,mean=0.5", many);
  EXPECT_NEAR(mean_of(all), 3.5, 0.01);
  EXPECT_GE(quantile_of(all, 0), 3);
  EXPECT_NEAR(quantile_of(all, 0.5), 3 + 0.5 * std::numbers::ln2, 0.01);
}

/// Its variance is infinite, so its quantiles are compared.
TEST(DrawnDelay, HasTheQuantilesOfAPareto) {
  const std::vector<double> all = steps_of("pareto:alpha=1.5,least=2", many);
  EXPECT_GE(quantile_of(all, 0), 2);
  EXPECT_NEAR(quantile_of(all, 0.5), 2 * std::pow(2, 1 / 1.5), 0.03);
  EXPECT_NEAR(quantile_of(all, 0.99), 2 * std::pow(100, 1 / 1.5), 2);
}

TEST(DrawnDelay, HasTheMomentsOfAGamma) {
  for (const double cv : {0.1, 0.6, 2.0}) {
    const std::vector<double> all = steps_of("gamma:mean=3,cv=" + std::to_string(cv), many);
    EXPECT_NEAR(mean_of(all), 3, 0.02 * std::max(cv, 0.2) * 3) << cv;
    EXPECT_NEAR(variation_of(all), cv, 0.03 * cv) << cv;
  }
}

/// CVB of Ali et al., 2000: a machine draws its mean once.
TEST(DrawnDelay, DrawsTheMeanOfAMachineOnce) {
  constexpr std::uint32_t machines = 4000;
  const delay_spec law("gamma:cv=0.1,machines=0.6", machines);
  std::vector<double> means;
  std::vector<double> all;
  for (std::uint32_t r = 0; r < machines; ++r) {
    const std::vector<double> steps = steps_of(law, {r}, 50);
    means.push_back(mean_of(steps));
    all.insert(all.end(), steps.begin(), steps.end());
    EXPECT_LT(variation_of(steps), 0.2);
  }
  EXPECT_NEAR(mean_of(means), 1, 0.04);
  EXPECT_NEAR(variation_of(means), 0.6, 0.03);
  EXPECT_NEAR(variation_of(all), std::sqrt(1.36 * 1.01 - 1), 0.03);
}

TEST(DrawnDelay, HasTheMomentsOfALognormal) {
  const std::vector<double> all = steps_of("lognormal:sigma=0.5,mean=2", many);
  EXPECT_NEAR(mean_of(all), 2, 0.02);
  EXPECT_NEAR(quantile_of(all, 0.5), 2 * std::exp(-0.125), 0.02);
  EXPECT_NEAR(variation_of(all), std::sqrt(std::exp(0.25) - 1), 0.02);
}

/// Source  the times of the Ringmaster paper's script: 1 + sqrt(i) + |N(0, sqrt(i + 1))|, with i from 0.
TEST(DrawnDelay, HasTheMomentsOfAHalfNormal) {
  const delay_spec law("half-normal:base=1+sqrt(i-1),sigma=sqrt(i)", 10);
  const std::vector<double> all = steps_of(law, {9}, many);
  const double sigma = std::sqrt(10.0);
  EXPECT_GE(quantile_of(all, 0), 4);
  EXPECT_NEAR(mean_of(all), 4 + sigma * std::sqrt(2 / std::numbers::pi), 0.02);
  EXPECT_NEAR(quantile_of(all, 0.5), 4 + sigma * 0.67449, 0.03);
}

TEST(DrawnDelay, SlowsSomeStepsDown) {
  const std::vector<double> all = steps_of("slowdown:p=0.05,factor=10,time=2", many);
  EXPECT_NEAR(mean_of(all), 2 * (0.95 + 0.5), 0.05);
  EXPECT_THAT(all, Each(::testing::AnyOf(2.0, 20.0)));
}

/// A tail may be too heavy for any clock.
TEST(DrawnDelay, IsCutWhereNoClockWouldHoldIt) {
  const std::vector<double> all = steps_of("pareto:alpha=0.01", 1000);
  EXPECT_EQ(quantile_of(all, 0.999), delay_law::longest);
}

TEST(DrawnDelay, DependsOnSeedWorkerAndStepAlone) {
  const delay_spec law("exp", 3);
  const std::vector<double> of_1 = steps_of(law, {1}, 4);
  EXPECT_EQ(of_1, steps_of(law, {1}, 4));
  EXPECT_NE(of_1, steps_of(law, {2}, 4));
  EXPECT_NE(of_1, steps_of(law, {1}, 4, 2));
  EXPECT_EQ(law.law_of({1}, 1)->seconds(4, 0), of_1[3]) << "without the steps before";
}

/// The numbers of other compilers and of later versions are the same.
TEST(DrawnDelay, KeepsItsNumbers) {
  EXPECT_NEAR(steps_of("exp", 1)[0], 0.668074373098, 1e-11);
  EXPECT_NEAR(steps_of(delay_spec("exp", 3), {2}, 7)[6], 0.143776811302, 1e-11);
  EXPECT_NEAR(steps_of("half-normal", 1)[0], 1.751355154163, 1e-11);
}

} // namespace
} // namespace mailgrad
