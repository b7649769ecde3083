#include <mailgrad/tests/lab/lab_runs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

// The time that runs in virtual time take for an update, against values that are known exactly or were found
// by others.

namespace mailgrad {
namespace {

using testing::run_in_lab;
using testing::seconds_per_update;
using testing::updates_per_second;

/// Two workers without memory under the bound s: (4s + 4) / (2s + 3) steps a second.
TEST(ExactTimes, OfTwoWorkersUnderSsp) {
  for (const std::uint64_t s : {0U, 1U, 2U, 3U, 9U}) {
    const double expected = static_cast<double>(4 * s + 4) / static_cast<double>(2 * s + 3);
    const training_report r = run_in_lab({2, "exp", "ssp:" + std::to_string(s), 80'000});
    EXPECT_NEAR(updates_per_second(r), expected, 0.01 * expected) << s;
  }
}

/// Source  a simulation of workers with exponential times by others.
TEST(ExactTimes, OfFourAndOfSixteenWorkersUnderSsp) {
  const std::pair<const char*, double> known[] = {
      {"ssp:0", 1.92}, {"ssp:1", 2.64}, {"ssp:3", 3.20}, {"ssp:10", 3.68}};
  for (const auto& [policy, expected] : known)
    EXPECT_NEAR(updates_per_second(run_in_lab({4, "exp", policy, 80'000})), expected, 0.01 * expected)
        << policy;
  const std::pair<const char*, double> known_of_16[] = {
      {"ssp:0", 4.7327}, {"ssp:1", 7.71}, {"ssp:3", 10.68}, {"ssp:10", 13.70}};
  for (const auto& [policy, expected] : known_of_16)
    EXPECT_NEAR(updates_per_second(run_in_lab({16, "exp", policy, 80'000})), expected, 0.02 * expected)
        << policy;
}

/// One that is always slow holds up all others for every bound.
TEST(ExactTimes, OfAStragglerUnderSspAreThoseOfABarrier) {
  const char* const delays = "list:1,1,1,1,1,1,1,2";
  for (const char* policy : {"ssp:0", "ssp:3"})
    EXPECT_NEAR(updates_per_second(run_in_lab({8, delays, policy, 16'000})), 4, 0.02) << policy;
  EXPECT_NEAR(updates_per_second(run_in_lab({8, delays, "async", 15'000})), 7.5, 0.02);
}

/// A barrier waits for the slowest of all: the mean of the largest of M draws.
TEST(ExactTimes, OfABarrierAreTheMeanOfTheSlowest) {
  struct expected {
    std::uint32_t workers;
    const char* delays;
    double seconds;
    double share; ///< by which a mean of so many may be off
  };
  const expected all[] = {
      {4, "exp", 2.0833, 0.01},
      {16, "exp", 3.3807, 0.01},
      {64, "exp", 4.7439, 0.015},
      {4, "shifted-exp:shift=1,mean=1", 3.0833, 0.01},
      {4, "pareto:alpha=1.5", 6.9429, 0.5}, // infinite variance
      {4, "pareto:alpha=2", 3.6571, 0.1},   // likewise
      {16, "pareto:alpha=2", 7.1454, 0.1},
      {4, "pareto:alpha=2.5", 2.6709, 0.05},
      {4, "pareto:alpha=3", 2.2091, 0.03},
      {16, "pareto:alpha=3", 3.4359, 0.03},
      {4, "gamma:cv=0.1", 1.1046, 0.005},
      {16, "gamma:cv=0.1", 1.1845, 0.005},
      {64, "gamma:cv=0.1", 1.2500, 0.005},
      {4, "gamma:cv=0.3", 1.3219, 0.005},
      {16, "gamma:cv=0.3", 1.5978, 0.005},
      {64, "gamma:cv=0.3", 1.8413, 0.005},
      {4, "gamma:cv=0.6", 1.6556, 0.01},
      {16, "gamma:cv=0.6", 2.3111, 0.01},
      {4, "lognormal:sigma=0.25", 1.2734, 0.005},
      {16, "lognormal:sigma=0.25", 1.5215, 0.005},
      {4, "lognormal:sigma=0.5", 1.5733, 0.01},
      {16, "lognormal:sigma=0.5", 2.2179, 0.01},
      {4, "lognormal:sigma=1", 2.2081, 0.02},
      {16, "lognormal:sigma=1", 4.1697, 0.02},
      {4, "slowdown:p=0.05,factor=10", 2.6694, 0.03},
      {16, "slowdown:p=0.05,factor=10", 6.0389, 0.02},
  };
  for (const expected& e : all) {
    const training_report r =
        run_in_lab({e.workers, e.delays, "sync", std::min(e.workers * 8'000ULL, 100'000ULL)});
    EXPECT_NEAR(seconds_per_update(r), e.seconds, e.share * e.seconds) << e.workers << " " << e.delays;
  }
}

/// Eight workers and batches of four. Those of any workers take 4 E[X] / 8 under every law.
TEST(ExactTimes, OfBatchesOfGradients) {
  struct expected {
    const char* delays;
    double k_async;
    double k_batch_async;
    double share;
  };
  const expected all[] = {{"exp", 0.634, 0.5, 0.015},
                          {"shifted-exp:shift=1,mean=1", 1.241, 1, 0.015},
                          {"gamma:cv=0.1", 0.549, 0.5, 0.01},
                          {"pareto:alpha=2", 1.235, 1, 0.05}};
  for (const expected& e : all) {
    const double distinct = seconds_per_update(run_in_lab({8, e.delays, "k-async:4", 40'000}));
    EXPECT_NEAR(distinct, e.k_async, e.share * e.k_async) << e.delays;
    const double any = seconds_per_update(run_in_lab({8, e.delays, "k-batch-async:4", 40'000}));
    EXPECT_NEAR(any, e.k_batch_async, e.share * e.k_batch_async) << e.delays;
  }
}

/// Under async the rates of all workers add up.
TEST(ExactTimes, OfAsyncAreTheSumOfAllRates) {
  const training_report r = run_in_lab({4, "exp:mean=i", "async", 40'000});
  EXPECT_NEAR(updates_per_second(r), 1 + 1 / 2.0 + 1 / 3.0 + 1 / 4.0, 0.02);
}

} // namespace
} // namespace mailgrad
