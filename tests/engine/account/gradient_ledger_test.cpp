#include <mailgrad/engine/account/gradient_ledger.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;

TEST(GradientLedger, BalancesWhenNothingHappened) { EXPECT_TRUE(gradient_ledger{}.balances()); }

TEST(GradientLedger, BalancesWhenEveryGradientHasAFate) {
  gradient_ledger l{10, 4, 3, {{"not finite", 1}, {"too stale", 1}}, 1};
  EXPECT_EQ(l.discarded_in_all(), 2U);
  EXPECT_TRUE(l.balances());
  ++l.produced;
  EXPECT_FALSE(l.balances());
}

TEST(GradientLedger, NoticesAGradientThatCountsTwice) {
  const gradient_ledger l{1, 1, 1, {}, 0};
  EXPECT_FALSE(l.balances());
}

TEST(GradientLedger, SaysInWordsWhatBecameOfTheGradients) {
  EXPECT_EQ(to_string(gradient_ledger{1876, 1874, 0, {{"not finite", 2}}, 0}),
            "1876 produced = 1874 applied + 0 merged + 2 discarded (not finite 2) + 0 lost");
  EXPECT_EQ(to_string(gradient_ledger{}), "0 produced = 0 applied + 0 merged + 0 discarded + 0 lost");
}

TEST(GradientLedger, SaysSoWhenItDoesNotBalance) {
  EXPECT_EQ(to_string(gradient_ledger{3, 1, 1, {{"a", 1}, {"b", 2}}, 0}),
            "3 produced but 1 applied + 1 merged + 3 discarded (a 1, b 2) + 0 lost");
}

TEST(DurationStat, KnowsNothingBeforeTheFirstSpan) {
  const duration_stat none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.mean_seconds(), 0);
  EXPECT_EQ(none.longest(), 0ns);
}

TEST(DurationStat, HasTheMeanAndTheLongestOfAllSpans) {
  duration_stat s;
  for (const instant span : {2s, 7s, 3s}) s.add(span);
  EXPECT_EQ(s.count(), 3U);
  EXPECT_EQ(s.total(), 12s);
  EXPECT_EQ(s.longest(), 7s);
  EXPECT_EQ(s.mean_seconds(), 4);
}

TEST(DurationStat, OfTwoIsThatOfAllTheirSpans) {
  duration_stat a, b;
  a.add(1s);
  b.add(5s);
  b.add(3s);
  a.merge(b);
  EXPECT_EQ(a.count(), 3U);
  EXPECT_EQ(a.mean_seconds(), 3);
  EXPECT_EQ(a.longest(), 5s);
  a.merge({});
  EXPECT_EQ(a.longest(), 5s);
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
