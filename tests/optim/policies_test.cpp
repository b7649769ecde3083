#include <mailgrad/tests/optim/joined_policy.hpp>

#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>
#include <mailgrad/optim/policies/sync.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using testing::between;
using testing::from;
using testing::joined;

sync_policy sync_of(std::uint32_t workers) {
  sync_policy p;
  for (std::uint32_t r = 0; r < workers; ++r) p.join({r});
  return p;
}

TEST(AsyncPolicy, AppliesEveryGradientAndLetsEveryWorkerStart) {
  async_policy p;
  p.join({0});
  p.join({1});
  for (std::uint64_t step = 1; step < 5; ++step) {
    EXPECT_EQ(p.judge({{0}, step, 0, 100}).what, verdict::apply);
    EXPECT_TRUE(p.may_start({0}));
    EXPECT_TRUE(p.may_start({1}));
    EXPECT_FALSE(p.batch_complete());
  }
}

TEST(AsyncPolicy, GoesOnWhenAWorkerLeaves) {
  async_policy p;
  p.join({0});
  p.join({1});
  p.leave({1});
  EXPECT_FALSE(p.batch_complete());
  EXPECT_EQ(p.judge(from(0)).what, verdict::apply);
}

TEST(SyncPolicy, HoldsEveryWorkerUntilTheLastGradientIsThere) {
  sync_policy p = sync_of(3);
  EXPECT_FALSE(p.batch_complete());
  for (const std::uint32_t r : {2U, 0U}) {
    EXPECT_EQ(p.judge(from(r)).what, verdict::merge);
    EXPECT_FALSE(p.batch_complete());
    EXPECT_FALSE(p.may_start({r}));
  }
  EXPECT_TRUE(p.may_start({1}));
  EXPECT_EQ(p.judge(from(1)).what, verdict::merge);
  EXPECT_TRUE(p.batch_complete());
  p.batch_applied();
  EXPECT_FALSE(p.batch_complete());
  for (std::uint32_t r = 0; r < 3; ++r) EXPECT_TRUE(p.may_start({r}));
}

TEST(SyncPolicy, SaysWhomItAwaitsFirst) {
  sync_policy p = sync_of(3);
  EXPECT_EQ(p.first_awaited(), rank{0});
  p.judge(from(1));
  EXPECT_EQ(p.first_awaited(), rank{0});
  p.judge(from(0));
  EXPECT_EQ(p.first_awaited(), rank{2});
  p.join({4});
  p.leave({2});
  EXPECT_EQ(p.first_awaited(), rank{4});
  p.judge(from(4));
  EXPECT_EQ(p.first_awaited(), std::nullopt);
  p.batch_applied();
  EXPECT_EQ(p.first_awaited(), rank{0});
  EXPECT_EQ(policy_spec("backup:1", 3).make()->first_awaited(), std::nullopt)
      << "any of them may be too late";
}

TEST(SyncPolicy, NeedsEveryWorkerAgainInTheNextRound) {
  sync_policy p = sync_of(2);
  for (std::uint64_t step = 1; step < 4; ++step) {
    p.judge(from(step % 2, step));
    EXPECT_FALSE(p.batch_complete());
    p.judge(from((step + 1) % 2, step));
    EXPECT_TRUE(p.batch_complete());
    p.batch_applied();
  }
}

TEST(SyncPolicy, DropsASecondGradientOfAWorkerInOneRound) {
  sync_policy p = sync_of(2);
  p.judge(from(0, 1));
  const decision d = p.judge(from(0, 2));
  EXPECT_EQ(d.what, verdict::discard);
  EXPECT_FALSE(d.reason.empty());
  EXPECT_FALSE(p.batch_complete());
}

TEST(SyncPolicy, DoesNotWaitForAWorkerThatLeft) {
  sync_policy p = sync_of(2);
  p.judge(from(0));
  p.leave({1});
  EXPECT_TRUE(p.batch_complete());
  p.batch_applied();
  EXPECT_TRUE(p.may_start({0}));
  EXPECT_FALSE(p.may_start({1}));
  p.judge(from(0, 2));
  EXPECT_TRUE(p.batch_complete());
}

TEST(SyncPolicy, KeepsTheGradientOfAWorkerThatLeavesAfterSendingIt) {
  sync_policy p = sync_of(2);
  p.judge(from(1));
  p.leave({1});
  EXPECT_FALSE(p.batch_complete()) << "worker 0 still computes";
  p.judge(from(0));
  EXPECT_TRUE(p.batch_complete());
}

TEST(SyncPolicy, DoesNotWaitInTheNextRoundForAWorkerThatLeftWhileItsGradientLay) {
  sync_policy p = sync_of(2);
  p.judge(from(1));
  p.leave({1});
  p.judge(from(0));
  p.batch_applied();
  EXPECT_FALSE(p.may_start({1}));
  p.judge(from(0, 2));
  EXPECT_TRUE(p.batch_complete());
}

TEST(SyncPolicy, IsNeverCompleteWithoutAGradient) {
  sync_policy p = sync_of(2);
  p.leave({0});
  EXPECT_FALSE(p.batch_complete());
  p.leave({1});
  EXPECT_FALSE(p.batch_complete());
}

TEST(SyncPolicy, DropsTheGradientOfAWorkerThatLeft) {
  sync_policy p = sync_of(2);
  p.leave({1});
  EXPECT_EQ(p.judge(from(1)).what, verdict::discard);
  EXPECT_FALSE(p.batch_complete());
}

TEST(SyncPolicy, TakesWorkersInAnyOrderOfJoining) {
  sync_policy p;
  p.join({2});
  p.join({0});
  p.judge(from(2));
  EXPECT_FALSE(p.batch_complete());
  p.join({1});
  p.judge(from(0));
  EXPECT_FALSE(p.batch_complete()) << "worker 1 came in mid-round and is waited for";
  p.judge(from(1));
  EXPECT_TRUE(p.batch_complete());
}

TEST(SyncPolicy, TakesAWorkerBackThatJoinsAgain) {
  sync_policy p = sync_of(2);
  p.leave({1});
  p.join({1});
  p.judge(from(0));
  EXPECT_FALSE(p.batch_complete());
  EXPECT_TRUE(p.may_start({1}));
}

TEST(RingmasterPolicy, DropsGradientsOfDelayROrMore) {
  const auto p = joined("ringmaster:3", 2);
  EXPECT_EQ(p->judge(between(0, 5, 7)).what, verdict::apply);
  EXPECT_EQ(p->judge(between(0, 4, 7)).what, verdict::discard);
}

TEST(Policies, SayHowStaleAGradientMayBe) {
  const auto most = [](const char* text) { return make_policy(text, 4)->most_stale(); };
  for (const char* text : {"backup:1", "k-batch-sync:3", "rennala:3", "malenia:3", "ringmaster:1"})
    EXPECT_EQ(most(text), 0U);
  EXPECT_EQ(most("ringmaster:4"), 3U);
  EXPECT_TRUE(policy_spec("ringmaster:4", 4).traits().has_most_stale);
  for (const char* text : {"async", "sync", "ssp:2", "dssp:1,3", "k-async:2", "k-batch-async:2", "quorum:2",
                           "queue:1,2", "ringleader"}) {
    EXPECT_FALSE(most(text)) << text;
    EXPECT_FALSE(policy_spec(text, 4).traits().has_most_stale) << text;
  }
}

} // namespace
} // namespace mailgrad
