#include <mailgrad/tests/optim/joined_policy.hpp>

#include <gtest/gtest.h>

#include <string>

// Policies that collect gradients until a batch is complete.

namespace mailgrad {
namespace {

using testing::between;
using testing::from;
using testing::joined;

TEST(BackupPolicy, DropsWhoComesAfterTheUpdateAndLetsHimStart) {
  const auto p = joined("backup:1", 3);
  EXPECT_EQ(p->judge(between(2, 0, 0)).what, verdict::merge);
  EXPECT_FALSE(p->may_start({2}));
  EXPECT_FALSE(p->batch_complete());
  EXPECT_EQ(p->judge(between(0, 0, 0)).what, verdict::merge);
  EXPECT_TRUE(p->batch_complete());
  p->batch_applied();
  EXPECT_TRUE(p->may_start({0}));
  EXPECT_TRUE(p->may_start({2}));
  const decision late = p->judge(between(1, 0, 1));
  EXPECT_EQ(late.what, verdict::discard);
  EXPECT_EQ(late.reason, "late");
  EXPECT_TRUE(p->may_start({1}));
}

TEST(BackupPolicy, DoesNotSpendABackupOnTheDead) {
  const auto p = joined("backup:1", 3);
  p->leave({1});
  p->judge(between(0, 0, 0));
  EXPECT_TRUE(p->batch_complete()) << "two are left, one of them may be late";
}

TEST(KAsyncPolicy, TakesStaleGradientsOfKWorkersAndHoldsThem) {
  const auto p = joined("k-async:2", 3);
  EXPECT_EQ(p->judge(between(0, 0, 5)).what, verdict::merge);
  EXPECT_FALSE(p->may_start({0}));
  EXPECT_EQ(p->judge(between(0, 0, 5)).what, verdict::discard) << "K different workers";
  EXPECT_FALSE(p->batch_complete());
  EXPECT_EQ(p->judge(between(1, 3, 5)).what, verdict::merge);
  EXPECT_TRUE(p->batch_complete());
}

TEST(KAsyncPolicy, MakesDoWithThoseWhoAreLeft) {
  const auto p = joined("k-async:3", 3);
  p->judge(between(0, 0, 0));
  p->leave({1});
  EXPECT_FALSE(p->batch_complete());
  p->leave({2});
  EXPECT_TRUE(p->batch_complete());
}

TEST(CountedBatch, IsFilledByWhoeverComesAndHoldsNobody) {
  for (const char* text : {"k-batch-async:3", "k-batch-sync:3", "rennala:3"}) {
    const auto p = joined(text, 2);
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(p->batch_complete()) << text;
      EXPECT_EQ(p->judge(between(0, 7, 7)).what, verdict::merge);
      EXPECT_TRUE(p->may_start({0}));
    }
    EXPECT_TRUE(p->batch_complete()) << text;
    p->batch_applied();
    EXPECT_FALSE(p->batch_complete());
  }
}

TEST(CountedBatch, OfFreshGradientsDropsTheStale) {
  for (const char* text : {"k-batch-sync:3", "rennala:3"})
    EXPECT_EQ(joined(text, 2)->judge(between(0, 6, 7)).what, verdict::discard) << text;
  EXPECT_EQ(joined("k-batch-async:3", 2)->judge(between(0, 6, 7)).what, verdict::merge);
}

TEST(CountedBatch, IsAppliedAsItIsWhenNobodyIsLeft) {
  const auto p = joined("rennala:3", 2);
  p->judge(between(0, 0, 0));
  p->leave({0});
  EXPECT_FALSE(p->batch_complete());
  p->leave({1});
  EXPECT_TRUE(p->batch_complete());
}

// 9 / (1 + 1 + 1/2) is 3.6, and 9 / (1 + 1/2 + 1/2) is 4.5.
TEST(MaleniaPolicy, IsCompleteWhenTheHarmonicMeanOfTheCountsIsHighEnough) {
  const auto p = joined("malenia:4", 3);
  for (const std::uint32_t sender : {0U, 0U, 1U, 2U}) {
    EXPECT_FALSE(p->batch_complete());
    EXPECT_EQ(p->judge(between(sender, 7, 7)).what, verdict::merge);
    EXPECT_TRUE(p->may_start({sender})) << "nobody waits";
  }
  EXPECT_FALSE(p->batch_complete());
  p->judge(between(2, 7, 7));
  EXPECT_TRUE(p->batch_complete());
  p->batch_applied();
  EXPECT_EQ(p->judge(between(0, 7, 8)).reason, "late");
  EXPECT_FALSE(p->batch_complete());
}

// 9 / (1/3 + 1/3 + 1/3) is 9, whatever rounding makes of it.
TEST(MaleniaPolicy, IsCompleteWhenTheMeanIsMetExactly) {
  for (const std::uint32_t each : {3U, 7U, 49U, 1000U}) {
    const auto p = joined("malenia:" + std::to_string(3 * each), 3);
    for (std::uint32_t i = 1; i < 3 * each; ++i) p->judge(between(i % 3, 0, 0));
    EXPECT_FALSE(p->batch_complete()) << each;
    p->judge(between(0, 0, 0));
    EXPECT_TRUE(p->batch_complete()) << each;
  }
}

TEST(MaleniaPolicy, WaitsForEveryWorkerThatIsPresent) {
  const auto p = joined("malenia:1", 3);
  for (int i = 0; i < 9; ++i) p->judge(between(i % 2, 0, 0));
  EXPECT_FALSE(p->batch_complete());
  p->join({3});
  p->leave({2});
  EXPECT_FALSE(p->batch_complete()) << "one has joined meanwhile";
  p->leave({3});
  EXPECT_TRUE(p->batch_complete());
  EXPECT_EQ(p->judge(between(2, 0, 0)).reason, "not awaited");
}

TEST(MaleniaPolicy, IsAppliedAsItIsWhenNobodyIsLeft) {
  const auto p = joined("malenia:90", 2);
  p->judge(between(0, 0, 0));
  p->leave({0});
  p->leave({1});
  EXPECT_TRUE(p->batch_complete());
  p->batch_applied();
  EXPECT_FALSE(p->batch_complete());
}

TEST(QueuePolicy, TakesTheFirstWhenMoreWaitThanItHolds) {
  const auto p = make_policy("queue:2,3", 2);
  p->join({0});
  p->join({1});
  for (std::uint64_t step = 1; step <= 3; ++step) {
    EXPECT_EQ(p->judge(from(0, step)).what, verdict::merge);
    EXPECT_FALSE(p->batch_complete());
    EXPECT_TRUE(p->may_start({0})) << "nobody waits";
  }
  EXPECT_EQ(p->judge(from(1)).what, verdict::merge);
  EXPECT_TRUE(p->batch_complete());
  EXPECT_EQ(p->takes_first(), 2U);
  p->batch_applied();
  EXPECT_FALSE(p->batch_complete()) << "two are left";
}

TEST(QueuePolicy, AppliesTheRestWhenNobodyIsLeft) {
  const auto p = make_policy("queue:2,3", 2);
  p->join({0});
  for (std::uint64_t step = 1; step <= 3; ++step) p->judge(from(0, step));
  p->leave({0});
  EXPECT_TRUE(p->batch_complete());
  p->batch_applied();
  EXPECT_TRUE(p->batch_complete()) << "one is left";
  p->batch_applied();
  EXPECT_FALSE(p->batch_complete());
}

} // namespace
} // namespace mailgrad
