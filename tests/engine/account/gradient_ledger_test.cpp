#include <mailgrad/engine/account/gradient_ledger.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

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

} // namespace
} // namespace mailgrad
