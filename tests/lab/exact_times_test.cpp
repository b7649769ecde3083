#include <mailgrad/tests/lab/lab_runs.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

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

/// The most that any worker had finished beyond another, at any moment.
std::uint64_t largest_lead(const run_trace& t, std::uint32_t workers) {
  std::vector<std::pair<instant, std::uint32_t>> ends;
  for (std::uint32_t w = 0; w < workers; ++w)
    for (const trace_event& e : t.tracks.at(w)->events())
      if (e.what == trace_kind::compute) ends.emplace_back(e.end, w);
  std::ranges::sort(ends);
  std::vector<std::uint64_t> finished(workers);
  std::uint64_t lead = 0;
  for (const auto& [when, worker] : ends) {
    ++finished[worker];
    lead = std::max(lead, finished[worker] - std::ranges::min(finished));
  }
  return lead;
}

/// A worker may begin a step when it is s ahead of the slowest, so it is s + 1 ahead when it has finished it.
TEST(ExactTimes, LetNoWorkerUnderSspFinishMoreThanOneStepBeyondTheBound) {
  for (const std::uint64_t s : {0U, 1U, 3U, 10U}) {
    lab::quadratic_case c;
    c.model = "quadratic:dimension=1";
    c.workers = 4;
    c.delays = "exp";
    c.policy = "ssp:" + std::to_string(s);
    c.learning_rate = 1e-6;
    c.steps = 8'000;
    c.trace_events = 20'000;
    EXPECT_EQ(largest_lead(lab::run_quadratic(c, {}).trace, c.workers), s + 1) << s;
  }
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
  for (const std::uint64_t i : testing::slice_of(std::size(all))) {
    const expected& e = all[i];
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

/// When each update was made, of workers whose steps always take the same time.
struct paced_run {
  std::vector<double> updates; ///< seconds
  training_report report;
};

paced_run run_paced(std::uint32_t workers, const char* delays, const std::string& policy,
                    std::uint64_t steps) {
  paced_run made;
  float last = 1;
  lab::quadratic_case c;
  c.model = "quadratic:dimension=1,start=1";
  c.workers = workers;
  c.delays = delays;
  c.policy = policy;
  c.learning_rate = 1e-3;
  c.steps = steps;
  c.on_read = [&](rank, instant when, std::span<const float> x) {
    if (std::exchange(last, x[0]) != x[0]) made.updates.push_back(in_seconds(when));
  };
  made.report = lab::run_quadratic(c, {}).report;
  return made;
}

/// Source  T(B) = min {t: sum of floor(t / T_i) >= B} of Tyurin & Richtarik, NeurIPS 2023: the first update.
TEST(ExactTimes, OfFreshBatchesAreThoseOfRennalasPaper) {
  struct known {
    std::uint32_t workers;
    const char* delays;
    double of_10, of_100;
  };
  for (const auto& [workers, delays, of_10, of_100] : {known{4, "constant:i", 6, 48},
                                                       {16, "constant:i", 5, 32},
                                                       {64, "constant:i", 5, 28},
                                                       {4, "constant:sqrt(i)", 4, 36.3731},
                                                       {16, "constant:sqrt(i)", 2.8284, 16},
                                                       {64, "constant:sqrt(i)", 2.8284, 8.4853}}) {
    const auto first = [&, m = workers, law = delays](const char* policy) {
      return run_paced(m, law, policy, 400).updates.at(0);
    };
    EXPECT_NEAR(first("rennala:10"), of_10, 1e-4) << workers << " " << delays;
    EXPECT_NEAR(first("rennala:100"), of_100, 1e-4) << workers << " " << delays;
  }
}

/// Sixteen workers that are not interrupted.
///
/// Source  Maranjyan et al., ICML 2025: any R updates take at most a time t(R); a simulation by others.
TEST(ExactTimes, OfRingmasterAreWithinTheBoundOfItsPaper) {
  struct known {
    const char* delays;
    std::uint64_t threshold;
    double longest, bound, discarded;
  };
  for (const auto& [delays, threshold, longest, bound, discarded] :
       {known{"constant:i", 4, 3, 7.636, 0.556},
        {"constant:i", 16, 8, 17.661, 0.271},
        {"constant:i", 64, 21, 47.327, 0},
        {"constant:sqrt(i)", 16, 4.241, 9.604, 0.248}}) {
    const paced_run r = run_paced(16, delays, "ringmaster:" + std::to_string(threshold), 6'000);
    double most = 0;
    for (std::size_t k = threshold; k + 100 < r.updates.size(); ++k) // at the end some have no batch left
      most = std::max(most, r.updates[k] - r.updates[k - threshold]);
    EXPECT_NEAR(most, longest, 0.01 * longest) << delays << ", R = " << threshold;
    EXPECT_LE(most, bound);
    EXPECT_NEAR(static_cast<double>(r.report.ledger.discarded_in_all()) / static_cast<double>(r.report.steps),
                discarded, 0.003)
        << delays << ", R = " << threshold;
  }
}

} // namespace
} // namespace mailgrad
