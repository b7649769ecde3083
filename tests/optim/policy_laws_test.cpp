#include <mailgrad/tests/optim/simulated_workers.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

// What the papers, and queueing theory, say each policy does to staleness and to time.

namespace mailgrad {
namespace {

using testing::exponential;
using testing::fixed_times;
using testing::simulated_workers;

constexpr std::uint64_t many = 200'000; // gradients: a mean is then good to about 1 %

double mean_gap(const simulated_workers& s) {
  return static_cast<double>(s.gaps_applied) / static_cast<double>(s.applied);
}
double seconds_an_update(const simulated_workers& s) { return s.now / static_cast<double>(s.updates); }
double steps_a_second(const simulated_workers& s) { return static_cast<double>(s.gradients) / s.now; }

// Every version that is made passes each of the others by: whatever the times are, gaps of what was taken, of
// what was dropped and of what is under way sum up to (M - 1) U.
TEST(PolicyLaws, ConserveStalenessExactly) {
  for (const char* text : {"async", "ringmaster:1", "ringmaster:3", "ringmaster:1000"})
    for (const std::uint32_t workers : {1U, 2U, 5U, 16U}) {
      const auto p = make_policy(text, workers);
      simulated_workers s(*p, workers, exponential());
      s.run(5000);
      // a dropped gradient makes no version, but its worker has seen all those before it: its age counts as
      // dropped
      EXPECT_EQ(s.gaps_applied + s.gaps_discarded + s.ages_in_flight(), (workers - 1) * s.updates) << text;
    }
}

TEST(PolicyLaws, MeanStalenessIsThatOfDuttaEtAl) {
  constexpr std::uint32_t workers = 8;
  const auto measured = [](const std::string& text) {
    const auto p = make_policy(text, workers);
    simulated_workers s(*p, workers, exponential());
    s.run(many);
    return mean_gap(s);
  };
  EXPECT_NEAR(measured("async"), 7, 0.01);
  EXPECT_NEAR(measured("k-batch-async:4"), 7.0 / 4, 0.01);
  EXPECT_NEAR(measured("k-async:2"), 6.0 / 2, 0.02);
  EXPECT_NEAR(measured("k-async:4"), 4.0 / 4, 0.02);
  for (const char* fresh : {"sync", "backup:3", "k-batch-sync:4", "rennala:4", "malenia:12"})
    EXPECT_EQ(measured(fresh), 0) << fresh;
}

// The queue is full at each update, so every version ages as many gradients as wait or are computed.
TEST(PolicyLaws, MeanStalenessOfAQueueIsThatOfLittle) {
  struct expected {
    std::uint32_t producers;
    const char* policy;
    double mean;
  };
  const expected all[] = {
      {8, "queue:2,4", 5}, {8, "queue:4,8", 3}, {3, "queue:1,5", 7}, {8, "queue:8,16", 2}};
  for (const expected& e : all)
    for (const testing::service_law& law : {exponential(), fixed_times({1, 2, 3, 4, 5, 6, 7, 8})}) {
      const auto p = make_policy(e.policy, e.producers);
      simulated_workers s(*p, e.producers, law);
      s.run(many);
      EXPECT_NEAR(mean_gap(s), e.mean, 0.002) << e.policy;
    }
}

TEST(PolicyLaws, PoliciesSayWhetherTheyAreAlwaysFresh) {
  constexpr std::uint32_t workers = 4;
  for (const char* text : {"async", "sync", "ssp:0", "dssp:0,2", "backup:1", "k-async:3", "k-async:4",
                           "k-batch-async:4", "k-batch-sync:4", "rennala:4", "ringmaster:1", "ringmaster:2",
                           "queue:2,3", "malenia:4", "ringleader"}) {
    const auto p = make_policy(text, workers);
    simulated_workers s(*p, workers, exponential());
    s.run(5000);
    EXPECT_EQ(p->always_fresh(), s.gaps_applied == 0) << text;
  }
}

// P(gap = k) = (1/M) (1 - 1/M)^k for exponential times: variance M (M - 1).
TEST(PolicyLaws, StalenessOfMemorylessWorkersIsGeometric) {
  const auto p = make_policy("async", 4);
  simulated_workers s(*p, 4, exponential());
  s.run(many);
  std::uint64_t long_gaps = 0;
  for (std::size_t i = 0; i < s.versions_applied.size(); ++i)
    long_gaps += i - s.versions_applied[i] >= 8 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(long_gaps) / many, std::pow(0.75, 8), 0.003);
}

TEST(PolicyLaws, EqualWorkersTakeTurns) {
  const auto p = make_policy("async", 5);
  simulated_workers s(*p, 5, fixed_times({1, 1, 1, 1, 1}));
  s.run(100);
  for (std::size_t i = 0; i < s.versions_applied.size(); ++i)
    EXPECT_EQ(i - s.versions_applied[i], std::min<std::size_t>(i, 4));
}

TEST(PolicyLaws, TimeOfAnUpdateFollowsOrderStatistics) {
  constexpr std::uint32_t workers = 8;
  const auto measured = [](const std::string& text) {
    const auto p = make_policy(text, workers);
    simulated_workers s(*p, workers, exponential());
    s.run(many);
    return seconds_an_update(s);
  };
  const auto harmonic = [](int n) {
    double sum = 0;
    for (int i = 1; i <= n; ++i) sum += 1.0 / i;
    return sum;
  };
  EXPECT_NEAR(measured("sync"), harmonic(8), 0.03);
  EXPECT_NEAR(measured("k-async:4"), harmonic(8) - harmonic(4), 0.01);
  EXPECT_NEAR(measured("k-batch-async:4"), 0.5, 0.01);
  EXPECT_NEAR(measured("async"), 1.0 / 8, 0.002);
}

TEST(PolicyLaws, BackupWorkersCutOffAStraggler) {
  const auto measured = [](const std::string& text) {
    const auto p = make_policy(text, 4);
    simulated_workers s(*p, 4, fixed_times({1, 1, 1, 10}));
    s.run_to_version(100);
    return seconds_an_update(s);
  };
  EXPECT_DOUBLE_EQ(measured("sync"), 10);
  EXPECT_DOUBLE_EQ(measured("backup:1"), 1);
}

TEST(PolicyLaws, StaleSynchronousThroughputOfTwoMemorylessWorkers) {
  for (const std::uint64_t bound : {0U, 1U, 2U, 3U, 9U}) {
    const auto p = make_policy("ssp:" + std::to_string(bound), 2);
    simulated_workers s(*p, 2, exponential());
    s.run(many);
    const double expected = (4.0 * static_cast<double>(bound) + 4) / (2.0 * static_cast<double>(bound) + 3);
    EXPECT_NEAR(steps_a_second(s), expected, 0.015) << "bound " << bound;
    EXPECT_EQ(s.largest_lead, bound);
  }
}

// A straggler that stays slow pulls every finite bound down to its own pace.
TEST(PolicyLaws, AStragglerSetsThePaceOfAnyBound) {
  const std::vector<double> seconds{1, 1, 1, 1, 1, 1, 1, 2};
  for (const std::uint64_t bound : {0U, 3U, 20U}) {
    const auto p = make_policy("ssp:" + std::to_string(bound), 8);
    simulated_workers s(*p, 8, fixed_times(seconds));
    s.run(20'000);
    EXPECT_NEAR(steps_a_second(s), 4.0, 0.05) << "bound " << bound;
  }
}

// T(B) of Tyurin & Richtarik for times 1, 2, 3, 4: ten fresh gradients take 6 seconds.
TEST(PolicyLaws, RennalaFillsItsBatchAsFastAsTheFixedModelAllows) {
  const auto p = make_policy("rennala:10", 4);
  simulated_workers s(*p, 4, fixed_times({1, 2, 3, 4}));
  s.run_to_version(1);
  EXPECT_DOUBLE_EQ(s.now, 6);
}

// The least t with n^2 / (sum of 1 / floor(t / T_i)) of S or more, for times 1, 2, 3 and 4.
TEST(PolicyLaws, MaleniaFillsItsBatchAsFastAsTheFixedModelAllows) {
  for (const auto& [s, seconds] : {std::pair{1, 4}, {5, 4}, {6, 6}, {8, 6}, {9, 8}}) {
    const auto p = make_policy("malenia:" + std::to_string(s), 4);
    simulated_workers run(*p, 4, fixed_times({1, 2, 3, 4}));
    run.run_to_version(1);
    EXPECT_DOUBLE_EQ(run.now, seconds) << s;
  }
}

TEST(PolicyLaws, RingleaderMakesAnUpdateAWorkerInTwiceTheTimeOfTheSlowest) {
  const std::vector<std::vector<double>> speeds{{1, 1, 1}, {1, 2, 4}, {1, 3, 3.5, 10}, {2, 0.1, 0.1, 0.1}};
  for (const std::vector<double>& seconds : speeds) {
    const auto n = static_cast<std::uint32_t>(seconds.size());
    const auto p = make_policy("ringleader", n);
    simulated_workers s(*p, n, fixed_times(seconds));
    s.run_to_version(200 * n);
    EXPECT_LE(s.now / 200, 2 * std::ranges::max(seconds) + 1e-9);
    EXPECT_EQ(p->rounds_over(), 200U);
    EXPECT_EQ(s.discarded, 0U);
  }
}

TEST(PolicyLaws, RingleaderTakesNoGradientOfMoreThanTwiceTheOtherWorkers) {
  for (const std::uint32_t workers : {1U, 2U, 3U, 8U}) {
    const auto p = make_policy("ringleader", workers);
    std::uint64_t largest = 0;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      const auto fresh = make_policy("ringleader", workers);
      simulated_workers s(*fresh, workers, exponential(), seed);
      s.run(4000);
      largest = std::max(largest, s.largest_gap);
    }
    EXPECT_EQ(largest, 2 * workers - 2) << workers;
  }
}

TEST(PolicyLaws, RingmasterWithoutEndIsAsyncAndWithOneTakesOnlyTheFresh) {
  const auto async = make_policy("async", 6);
  const auto endless = make_policy("ringmaster:18446744073709551615", 6);
  const auto strict = make_policy("ringmaster:1", 6);
  simulated_workers a(*async, 6, exponential());
  simulated_workers b(*endless, 6, exponential());
  simulated_workers c(*strict, 6, exponential());
  for (simulated_workers* s : {&a, &b, &c}) s->run(5000);
  EXPECT_EQ(a.versions_applied, b.versions_applied);
  EXPECT_EQ(c.largest_gap, 0U);
  EXPECT_GT(c.discarded, 0U);
}

TEST(PolicyLaws, NoBackupIsSyncAndAllWorkersOfKAsyncToo) {
  const auto sync = make_policy("sync", 4);
  simulated_workers a(*sync, 4, exponential());
  a.run(4000);
  for (const char* text : {"backup:0", "k-async:4"}) {
    const auto p = make_policy(text, 4);
    simulated_workers b(*p, 4, exponential());
    b.run(4000);
    EXPECT_EQ(a.versions_applied, b.versions_applied) << text;
    EXPECT_DOUBLE_EQ(a.now, b.now) << text;
  }
}

TEST(PolicyLaws, DynamicBoundStaysWithinItsRangeAndLetsTheFastWaitLess) {
  const auto throughput = [](const std::string& text, std::uint64_t most) {
    const auto p = make_policy(text, 4);
    simulated_workers s(*p, 4, fixed_times({1, 1, 1, 3.5}));
    s.run(400);
    EXPECT_LE(s.largest_lead, most) << text;
    return steps_a_second(s);
  };
  EXPECT_GT(throughput("dssp:1,6", 6), throughput("ssp:1", 1));
  EXPECT_DOUBLE_EQ(throughput("dssp:2,2", 2), throughput("ssp:2", 2));
}

} // namespace
} // namespace mailgrad
