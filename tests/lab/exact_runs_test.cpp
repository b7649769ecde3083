#include <mailgrad/lab/experiments/quadratic_run.hpp>
#include <mailgrad/tests/lab/lab_runs.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

namespace mailgrad::lab {
namespace {

using namespace mailgrad::testing;

// The staleness of runs in virtual time against values that are known exactly, whatever the model.

using buckets = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

/// M equal workers in turn: a first-in, first-out delay of M - 1.
TEST(ExactStaleness, OfEqualWorkersIsOneLessThanTheirNumber) {
  for (const std::uint32_t workers : {1U, 2U, 5U, 16U}) {
    buckets expected;
    for (std::uint64_t gap = 0; gap + 1 < workers; ++gap) expected.emplace_back(gap, 1);
    expected.emplace_back(workers - 1, 160 - (workers - 1));
    EXPECT_EQ(run_in_lab({workers, "constant:1", "async", 160}).staleness.buckets(), expected) << workers;
  }
}

/// P(gap = k) = (1 - 1/M)^k / M, with mean M - 1 and variance M (M - 1).
TEST(ExactStaleness, OfWorkersWithoutMemoryIsGeometric) {
  const std::pair<std::uint32_t, double> beyond_twice[] = {
      {4, 0.1001}, {8, 0.1181}, {16, 0.1268}, {64, 0.1332}};
  for (const auto& [workers, share] : beyond_twice) {
    const training_report r = run_in_lab({workers, "exp", "async", 100'000});
    EXPECT_NEAR(r.staleness.mean(), workers - 1, 0.01 * workers);
    double squares = 0, beyond = 0;
    std::uint64_t gaps = 0; // that are as frequent as they should be
    for (const auto& [gap, count] : r.staleness.buckets()) {
      const double off = static_cast<double>(gap) - (workers - 1);
      const double seen = static_cast<double>(count) / static_cast<double>(r.staleness.total());
      squares += seen * off * off;
      if (gap >= std::uint64_t{2} * workers) beyond += seen;
      if (gap == gaps && std::abs(seen - std::pow(1 - 1.0 / workers, gap) / workers) < 0.004) ++gaps;
    }
    EXPECT_GE(gaps, 4U) << workers;
    EXPECT_NEAR(squares, workers * (workers - 1), 0.06 * workers * workers);
    EXPECT_NEAR(beyond, share, 0.006);
  }
}

/// Of worker i with mean time E_i: E_i times the rate of all workers, less 1.
TEST(ExactStaleness, OfAWorkerGrowsWithItsOwnTime) {
  for (const char* delays : {"list:1,1,1,4", "gamma:cv=0.5,mean=1+(i-1)*(i-2)*(i-3)/2"}) {
    const training_report r = run_in_lab({4, delays, "async", 30'000});
    for (std::uint32_t w = 0; w < 3; ++w) EXPECT_NEAR(staleness_of(r, w).mean(), 2.25, 0.05) << delays;
    EXPECT_NEAR(staleness_of(r, 3).mean(), 12, 0.25) << delays;
  }
}

/// Each update makes the gradients of all other workers one version older, whatever the times, so the gaps of
/// all gradients sum to (M - 1) U after U updates; to (M - K) U if the K gradients of an update are of
/// different workers. What is missing at the end are the ages of gradients that were never finished.
TEST(ExactStaleness, IsConservedUnderEveryLaw) {
  const std::pair<const char*, std::uint64_t> gaps_of_updates[] = {
      {"async", 7}, {"k-batch-async:4", 7}, {"k-async:4", 4}, {"sync", 0}, {"backup:2", 0}, {"rennala:4", 0}};
  for (const char* delays : {"exp", "pareto:alpha=1.5", "gamma:cv=0.1", "constant:sqrt(i)"})
    for (const auto& [policy, gaps] : gaps_of_updates) {
      const training_report r = run_in_lab({8, delays, policy, 16'000});
      std::uint64_t sum = 0;
      for (const auto& [gap, count] : r.staleness.buckets()) sum += gap * count;
      EXPECT_LE(sum, gaps * r.updates) << policy << " with " << delays;
      EXPECT_GE(sum + 8 * gaps, gaps * r.updates) << policy << " with " << delays;
    }
}

/// Source  Zhang et al., IJCAI 2016, Figure 1: 30 workers, means about 30 and 15, and {0, 1, 2}.
TEST(ExactStaleness, OfSoftsyncIsThatOfItsPaper) {
  const auto of = [](const char* policy, double mean, double within) {
    const training_report r = run_in_lab({30, "gamma:cv=0.1", policy, 30'000});
    EXPECT_NEAR(r.staleness.mean(), mean, within) << policy;
    return r.staleness.max();
  };
  EXPECT_LE(of("k-batch-async:1", 28.98, 0.1), 60U);
  EXPECT_LE(of("k-batch-async:2", 14.49, 0.06), 30U);
  of("k-batch-async:5", 5.80, 0.03);
  EXPECT_LE(of("k-batch-async:30", 0.967, 0.01), 2U);
}

/// (P + Q - B) / B of P producers, a queue of Q that is kept full, and versions of B. Less than P + Q items
/// are fresher, since there was no full queue yet.
TEST(ExactStaleness, OfAQueueIsThatOfLittle) {
  for (const char* delays : {"exp", "constant:sqrt(i)"}) {
    const auto mean = [&](std::uint32_t producers, const char* policy) {
      return run_in_lab({producers, delays, policy, 64'000}).staleness.mean();
    };
    EXPECT_NEAR(mean(8, "queue:2,4"), 5, 0.003) << delays;
    EXPECT_NEAR(mean(8, "queue:4,8"), 3, 0.003) << delays;
    EXPECT_NEAR(mean(3, "queue:1,5"), 7, 0.003) << delays;
    EXPECT_NEAR(mean(8, "queue:8,16"), 2, 0.003) << delays;
  }
}

TEST(ExactStaleness, StaysWithinTheBoundOfSsp) {
  const training_report r = run_in_lab({4, "list:1,1,1,100", "ssp:2", 2'000});
  EXPECT_LE(r.staleness.max(), 3U * 4U) << "four workers that are at most three steps apart";
}

/// Nothing as old as the threshold of Ringmaster is applied, and a threshold of 1 leaves fresh ones alone.
TEST(ExactStaleness, StaysBelowTheThresholdOfRingmaster) {
  const training_report r = run_in_lab({8, "exp:mean=i", "ringmaster:4", 8'000});
  EXPECT_EQ(r.staleness.max(), 3U);
  EXPECT_GT(r.ledger.discarded_in_all(), 0U);
  EXPECT_EQ(run_in_lab({8, "exp:mean=i", "ringmaster:1", 2'000}).staleness.max(), 0U);
}

// The time that runs in virtual time take for an update, against values that are known exactly or were found
// by others.

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
  const auto pace = [](std::uint32_t workers, const char* policy) {
    return updates_per_second(run_in_lab({workers, "exp", policy, 80'000}));
  };
  const std::tuple<const char*, double, double> known[] = {
      {"ssp:0", 1.92, 4.7327}, {"ssp:1", 2.64, 7.71}, {"ssp:3", 3.20, 10.68}, {"ssp:10", 3.68, 13.70}};
  for (const auto& [policy, of_4, of_16] : known) {
    EXPECT_NEAR(pace(4, policy), of_4, 0.01 * of_4) << policy;
    EXPECT_NEAR(pace(16, policy), of_16, 0.02 * of_16) << policy;
  }
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
    quadratic_case c;
    c.model = "quadratic:dimension=1";
    c.workers = 4;
    c.delays = "exp";
    c.policy = "ssp:" + std::to_string(s);
    c.learning_rate = 1e-6;
    c.steps = 8'000;
    c.trace_events = 20'000;
    EXPECT_EQ(largest_lead(run_quadratic(c, {}).trace, c.workers), s + 1) << s;
  }
}

/// One that is always slow holds up all others for every bound.
TEST(ExactTimes, OfAStragglerUnderSspAreThoseOfABarrier) {
  const char* const delays = "list:1,1,1,1,1,1,1,2";
  for (const char* policy : {"ssp:0", "ssp:3"})
    EXPECT_NEAR(updates_per_second(run_in_lab({8, delays, policy, 16'000})), 4, 0.02) << policy;
  EXPECT_NEAR(updates_per_second(run_in_lab({8, delays, "async", 15'000})), 7.5, 0.02);
}

/// A barrier waits for the slowest of all: the mean of the largest of M draws. It is off by more for Pareto
/// times of alpha 2 or less, whose variance is infinite.
TEST(ExactTimes, OfABarrierAreTheMeanOfTheSlowest) {
  struct law {
    const char* delays;
    double share; ///< by which a mean of so many may be off
    double of_4, of_16 = 0, of_64 = 0;
  };
  const law all[] = {{"exp", 0.01, 2.0833, 3.3807},
                     {"exp", 0.015, 0, 0, 4.7439},
                     {"shifted-exp:shift=1,mean=1", 0.01, 3.0833},
                     {"pareto:alpha=1.5", 0.5, 6.9429},
                     {"pareto:alpha=2", 0.1, 3.6571, 7.1454},
                     {"pareto:alpha=2.5", 0.05, 2.6709},
                     {"pareto:alpha=3", 0.03, 2.2091, 3.4359},
                     {"gamma:cv=0.1", 0.005, 1.1046, 1.1845, 1.2500},
                     {"gamma:cv=0.3", 0.005, 1.3219, 1.5978, 1.8413},
                     {"gamma:cv=0.6", 0.01, 1.6556, 2.3111},
                     {"lognormal:sigma=0.25", 0.005, 1.2734, 1.5215},
                     {"lognormal:sigma=0.5", 0.01, 1.5733, 2.2179},
                     {"lognormal:sigma=1", 0.02, 2.2081, 4.1697},
                     {"slowdown:p=0.05,factor=10", 0.03, 2.6694},
                     {"slowdown:p=0.05,factor=10", 0.02, 0, 6.0389}};
  for (const std::uint64_t i : testing::slice_of(std::size(all)))
    for (const auto& [workers, expected] :
         {std::pair{4U, all[i].of_4}, {16U, all[i].of_16}, {64U, all[i].of_64}}) {
      if (expected == 0) continue; // not known
      const training_report r =
          run_in_lab({workers, all[i].delays, "sync", std::min(workers * 8'000ULL, 100'000ULL)});
      EXPECT_NEAR(seconds_per_update(r), expected, all[i].share * expected)
          << workers << " " << all[i].delays;
    }
}

/// Eight workers and batches of four. Those of any workers take 4 E[X] / 8 under every law.
TEST(ExactTimes, OfBatchesOfGradients) {
  const auto take = [](const char* delays, double of_distinct, double of_any, double share) {
    const double distinct = seconds_per_update(run_in_lab({8, delays, "k-async:4", 40'000}));
    EXPECT_NEAR(distinct, of_distinct, share * of_distinct) << delays;
    const double any = seconds_per_update(run_in_lab({8, delays, "k-batch-async:4", 40'000}));
    EXPECT_NEAR(any, of_any, share * of_any) << delays;
  };
  take("exp", 0.634, 0.5, 0.015);
  take("shifted-exp:shift=1,mean=1", 1.241, 1, 0.015);
  take("gamma:cv=0.1", 0.549, 0.5, 0.01);
  take("pareto:alpha=2", 1.235, 1, 0.05);
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
  quadratic_case c;
  c.model = "quadratic:dimension=1,start=1";
  c.workers = workers;
  c.delays = delays;
  c.policy = policy;
  c.learning_rate = 1e-3;
  c.steps = steps;
  c.on_read = [&](rank, instant when, std::span<const float> x) {
    if (std::exchange(last, x[0]) != x[0]) made.updates.push_back(in_seconds(when));
  };
  made.report = run_quadratic(c, {}).report;
  return made;
}

/// Source  T(B) = min {t: sum of floor(t / T_i) >= B} of Tyurin & Richtarik, NeurIPS 2023: the first update.
TEST(ExactTimes, OfFreshBatchesAreThoseOfRennalasPaper) {
  const auto take = [](std::uint32_t workers, const char* delays, double of_10, double of_100) {
    const auto first = [&](const char* policy) {
      return run_paced(workers, delays, policy, 400).updates.at(0);
    };
    EXPECT_NEAR(first("rennala:10"), of_10, 1e-4) << workers << " " << delays;
    EXPECT_NEAR(first("rennala:100"), of_100, 1e-4) << workers << " " << delays;
  };
  take(4, "constant:i", 6, 48);
  take(16, "constant:i", 5, 32);
  take(64, "constant:i", 5, 28);
  take(4, "constant:sqrt(i)", 4, 36.3731);
  take(16, "constant:sqrt(i)", 2.8284, 16);
  take(64, "constant:sqrt(i)", 2.8284, 8.4853);
}

/// Sixteen workers that are not interrupted.
///
/// Source  Maranjyan et al., ICML 2025: any R updates take at most a time t(R); a simulation by others.
TEST(ExactTimes, OfRingmasterAreWithinTheBoundOfItsPaper) {
  const auto take = [](const char* delays, std::uint64_t threshold, double longest, double bound,
                       double discarded) {
    const paced_run r = run_paced(16, delays, "ringmaster:" + std::to_string(threshold), 6'000);
    double most = 0;
    for (std::size_t k = threshold; k + 100 < r.updates.size(); ++k) // at the end some have no batch left
      most = std::max(most, r.updates[k] - r.updates[k - threshold]);
    EXPECT_NEAR(most, longest, 0.01 * longest) << delays << ", R = " << threshold;
    EXPECT_LE(most, bound);
    EXPECT_NEAR(static_cast<double>(r.report.ledger.discarded_in_all()) / static_cast<double>(r.report.steps),
                discarded, 0.003)
        << delays << ", R = " << threshold;
  };
  take("constant:i", 4, 3, 7.636, 0.556);
  take("constant:i", 16, 8, 17.661, 0.271);
  take("constant:i", 64, 21, 47.327, 0);
  take("constant:sqrt(i)", 16, 4.241, 9.604, 0.248);
}

} // namespace
} // namespace mailgrad::lab
