#include <mailgrad/engine/account/gradient_ledger.hpp>
#include <mailgrad/engine/account/staleness_histogram.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <map>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

TEST(GradientLedger, BalancesWhenEveryGradientHasOneFate) {
  EXPECT_TRUE(gradient_ledger{}.balances());
  gradient_ledger l{10, 4, 3, {{"not finite", 1}, {"too stale", 1}}, 1};
  EXPECT_EQ(l.discarded_in_all(), 2U);
  EXPECT_TRUE(l.balances());
  ++l.produced;
  EXPECT_FALSE(l.balances());
  EXPECT_FALSE((gradient_ledger{1, 1, 1, {}, 0}.balances())) << "one counts twice";
}

TEST(GradientLedger, SaysInWordsWhatBecameOfTheGradients) {
  EXPECT_EQ(to_string(gradient_ledger{1876, 1874, 0, {{"not finite", 2}}, 0}),
            "1876 produced = 1874 applied + 0 merged + 2 discarded (not finite 2) + 0 lost");
  EXPECT_EQ(to_string(gradient_ledger{}), "0 produced = 0 applied + 0 merged + 0 discarded + 0 lost");
  EXPECT_EQ(to_string(gradient_ledger{3, 1, 1, {{"a", 1}, {"b", 2}}, 0}),
            "3 produced but 1 applied + 1 merged + 3 discarded (a 1, b 2) + 0 lost");
}

TEST(DurationStat, HasTheMeanAndTheLongestOfAllSpans) {
  duration_stat a, b;
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(a.mean_seconds(), 0);
  EXPECT_EQ(a.longest(), 0ns);
  for (const instant span : {2s, 7s, 3s}) a.add(span);
  EXPECT_EQ(a.count(), 3U);
  EXPECT_EQ(a.total(), 12s);
  EXPECT_EQ(a.longest(), 7s);
  EXPECT_EQ(a.mean_seconds(), 4);
  b.add(8s);
  b.merge(a);
  b.merge({});
  EXPECT_EQ(b.count(), 4U);
  EXPECT_EQ(b.mean_seconds(), 5);
  EXPECT_EQ(b.longest(), 8s);
  a.merge(b);
  EXPECT_EQ(a.longest(), 8s);
}

TEST(TimeSplit, CountsOnlyWhatWasMeasured) {
  time_split s;
  s.arrive({1s, std::nullopt}, std::nullopt);
  s.arrive({std::nullopt, 2s}, 3s);
  EXPECT_EQ(s.read.count(), 1U);
  EXPECT_EQ(s.read.total(), 1s);
  EXPECT_EQ(s.compute.count(), 1U);
  EXPECT_EQ(s.compute.total(), 2s);
  EXPECT_EQ(s.mailbox.count(), 1U);
  EXPECT_EQ(s.mailbox.total(), 3s);
  EXPECT_TRUE(s.apply.empty());
  EXPECT_TRUE(s.wire.empty());
}

/// Each part has a length of its own, so that none can stand for another.
TEST(TimeSplit, MergesEachPartWithItsLike) {
  time_split a, b;
  b.read.add(1s);
  b.compute.add(2s);
  b.wire.add(3s);
  b.mailbox.add(4s);
  b.apply.add(5s);
  a.merge(b);
  a.merge(b);
  EXPECT_EQ(a.read.total(), 2s);
  EXPECT_EQ(a.compute.total(), 4s);
  EXPECT_EQ(a.wire.total(), 6s);
  EXPECT_EQ(a.mailbox.total(), 8s);
  EXPECT_EQ(a.apply.total(), 10s);
}

TEST(StalenessHistogram, CountsEachGapInABucketOfItsOwn) {
  staleness_histogram h;
  EXPECT_TRUE(h.empty());
  EXPECT_EQ(h.mean(), 0);
  EXPECT_EQ(h.quantile(0.5), 0U);
  h.count(9, 0);
  EXPECT_EQ(h.total(), 0U) << "nothing is counted zero times";
  EXPECT_EQ(h.max(), 0U);
  EXPECT_THAT(h.buckets(), IsEmpty());
  for (const std::uint64_t gap : {3U, 0U, 3U, 7U}) h.count(gap);
  EXPECT_THAT(h.buckets(), ElementsAre(Pair(0, 1), Pair(3, 2), Pair(7, 1)));
  EXPECT_EQ(h.total(), 4U);
  EXPECT_DOUBLE_EQ(h.mean(), 13.0 / 4);
  EXPECT_EQ(h.max(), 7U);
}

TEST(StalenessHistogram, KeepsGapsOfAnySizeExactly) {
  staleness_histogram h;
  h.count(1'000'000'000'000, 2);
  h.count(65'535);
  h.count(65'536);
  h.count(5);
  EXPECT_THAT(h.buckets(),
              ElementsAre(Pair(5, 1), Pair(65'535, 1), Pair(65'536, 1), Pair(1'000'000'000'000, 2)));
  EXPECT_EQ(h.max(), 1'000'000'000'000U);
  EXPECT_EQ(h.quantile(0.4), 65'535U);
  EXPECT_EQ(h.quantile(0.6), 65'536U);
  EXPECT_EQ(h.quantile(0.61), 1'000'000'000'000U);
}

TEST(StalenessHistogram, TakesTheSmallestGapThatTheShareDoesNotExceed) {
  staleness_histogram h;
  for (std::uint64_t gap = 1; gap <= 100; ++gap) h.count(gap);
  EXPECT_EQ(h.quantile(0.5), 50U);
  EXPECT_EQ(h.quantile(0.99), 99U);
  EXPECT_EQ(h.quantile(0.991), 100U);
  EXPECT_EQ(h.quantile(1.0), 100U);
  EXPECT_EQ(h.quantile(0.001), 1U);
}

TEST(StalenessHistogram, MergesBucketByBucketAndForgetsAllWhenCleared) {
  staleness_histogram a, b;
  a.count(1, 2);
  a.count(10'000);
  b.count(1);
  b.count(2);
  b.count(10'000, 3);
  a.merge(b);
  EXPECT_THAT(a.buckets(), ElementsAre(Pair(1, 3), Pair(2, 1), Pair(10'000, 4)));
  EXPECT_EQ(a.total(), 8U);
  a.clear();
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(a.max(), 0U);
  EXPECT_THAT(a.buckets(), IsEmpty());
  a.count(2);
  EXPECT_THAT(a.buckets(), ElementsAre(Pair(2, 1)));
}

/// Large gaps get slots as gradients are counted, and no count is lost then.
TEST(StalenessHistogram, CountsTheSameWhileItsMemoryChanges) {
  staleness_histogram h;
  std::map<std::uint64_t, std::uint64_t> expected;
  for (std::uint64_t i = 0; i < 3'000; ++i) {
    const std::uint64_t gap = i * i * 7919 % 6'000;
    h.count(gap);
    ++expected[gap];
  }
  EXPECT_THAT(h.buckets(), ElementsAreArray(expected));
  EXPECT_EQ(h.max(), expected.rbegin()->first);
  std::uint64_t seen = 0;
  auto median = expected.begin();
  while ((seen += median->second) < 1'500) ++median;
  EXPECT_EQ(h.quantile(0.5), median->first);
}

/// Gaps as large as those of thousands of workers come in any order, and are read between the counts.
TEST(StalenessHistogram, CountsGapsThatAreMuchLargerThanTheirNumber) {
  staleness_histogram h;
  std::map<std::uint64_t, std::uint64_t> expected;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::uint64_t gap = 100'000 + i * 7919 % 90;
    h.count(gap, i % 3);
    if (i % 3 > 0) expected[gap] += i % 3;
    ASSERT_THAT(h.buckets(), ElementsAreArray(expected));
  }
  EXPECT_EQ(h.max(), expected.rbegin()->first);
  EXPECT_EQ(h.quantile(1.0), expected.rbegin()->first);
  EXPECT_EQ(h.quantile(0.001), expected.begin()->first);
}

} // namespace
} // namespace mailgrad
