#include <mailgrad/engine/account/staleness_histogram.hpp>

#include <gmock/gmock.h>

#include <map>

namespace mailgrad {
namespace {

using namespace ::testing;

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
