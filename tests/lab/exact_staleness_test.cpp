#include <mailgrad/tests/lab/lab_runs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

// The staleness of runs in virtual time against values that are known exactly, whatever the model.

namespace mailgrad {
namespace {

using testing::run_in_lab;

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
    double squares = 0;
    std::uint64_t beyond = 0;
    for (const auto& [gap, count] : r.staleness.buckets()) {
      const double off = static_cast<double>(gap) - (workers - 1);
      squares += static_cast<double>(count) * off * off;
      if (gap >= std::uint64_t{2} * workers) beyond += count;
    }
    const auto total = static_cast<double>(r.staleness.total());
    for (std::uint64_t gap = 0; gap < 4; ++gap) {
      const auto& all = r.staleness.buckets();
      const auto seen = std::ranges::find(all, gap, &std::pair<std::uint64_t, std::uint64_t>::first);
      ASSERT_NE(seen, all.end()) << workers;
      EXPECT_NEAR(static_cast<double>(seen->second) / total, std::pow(1 - 1.0 / workers, gap) / workers,
                  0.004)
          << workers << " workers, gap " << gap;
    }
    EXPECT_NEAR(squares / total, workers * (workers - 1), 0.06 * workers * workers);
    EXPECT_NEAR(static_cast<double>(beyond) / total, share, 0.006);
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
  struct expected {
    const char* policy;
    std::uint64_t gaps; ///< of an update
  };
  const expected all[] = {{"async", 7}, {"k-batch-async:4", 7}, {"k-async:4", 4},
                          {"sync", 0},  {"backup:2", 0},        {"rennala:4", 0}};
  for (const char* delays : {"exp", "pareto:alpha=1.5", "gamma:cv=0.1", "constant:sqrt(i)"})
    for (const expected& e : all) {
      const training_report r = run_in_lab({8, delays, e.policy, 16'000});
      std::uint64_t sum = 0;
      for (const auto& [gap, count] : r.staleness.buckets()) sum += gap * count;
      EXPECT_LE(sum, e.gaps * r.updates) << e.policy << " with " << delays;
      EXPECT_GE(sum + 8 * e.gaps, e.gaps * r.updates) << e.policy << " with " << delays;
    }
}

/// Source  Zhang et al., IJCAI 2016, Figure 1: 30 workers, means about 30 and 15, and {0, 1, 2}.
TEST(ExactStaleness, OfSoftsyncIsThatOfItsPaper) {
  const training_report one = run_in_lab({30, "gamma:cv=0.1", "k-batch-async:1", 30'000});
  EXPECT_NEAR(one.staleness.mean(), 28.98, 0.1);
  const training_report two = run_in_lab({30, "gamma:cv=0.1", "k-batch-async:2", 30'000});
  EXPECT_NEAR(two.staleness.mean(), 14.49, 0.06);
  const training_report five = run_in_lab({30, "gamma:cv=0.1", "k-batch-async:5", 30'000});
  EXPECT_NEAR(five.staleness.mean(), 5.80, 0.03);
  for (const auto& [r, c] : {std::pair(&one, 1U), {&two, 2U}}) EXPECT_LE(r->staleness.max(), 2U * 30 / c);
  const training_report all = run_in_lab({30, "gamma:cv=0.1", "k-batch-async:30", 30'000});
  EXPECT_NEAR(all.staleness.mean(), 0.967, 0.01);
  EXPECT_LE(all.staleness.max(), 2U);
}

/// (P + Q - B) / B of P producers, a queue of Q that is kept full, and versions of B. Less than P + Q items
/// are fresher, since there was no full queue yet.
TEST(ExactStaleness, OfAQueueIsThatOfLittle) {
  struct expected {
    std::uint32_t producers;
    const char* policy;
    double mean;
  };
  const expected all[] = {
      {8, "queue:2,4", 5}, {8, "queue:4,8", 3}, {3, "queue:1,5", 7}, {8, "queue:8,16", 2}};
  for (const expected& e : all)
    for (const char* delays : {"exp", "constant:sqrt(i)"})
      EXPECT_NEAR(run_in_lab({e.producers, delays, e.policy, 64'000}).staleness.mean(), e.mean, 0.003)
          << e.policy << " with " << delays;
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

} // namespace
} // namespace mailgrad
