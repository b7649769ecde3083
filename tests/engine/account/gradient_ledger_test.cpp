#include <mailgrad/engine/account/gradient_ledger.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;

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

} // namespace
} // namespace mailgrad
