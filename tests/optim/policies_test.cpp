#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/optim/policies/hogwild.hpp>
#include <mailgrad/optim/policies/policy.hpp>
#include <mailgrad/optim/policies/sync.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

gradient_stamp from(std::uint32_t worker, std::uint64_t step = 1) { return {{worker}, step, 0, 0}; }

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

TEST(MakePolicy, KnowsEveryNamedPolicyThatAShardAsks) {
  EXPECT_EQ(make_policy("async")->name(), "async");
  EXPECT_EQ(make_policy("sync")->name(), "sync");
  for (const std::string_view name : policy_names()) EXPECT_NO_THROW(require_policy(name));
}

TEST(MakePolicy, NamesTheNearestOfAWrongName) {
  try {
    make_policy("asnyc");
    FAIL() << "a wrong name was taken";
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), HasSubstr("'asnyc'"));
    EXPECT_THAT(e.what(), HasSubstr("'async'"));
  }
  EXPECT_THROW(require_policy(""), std::invalid_argument);
}

TEST(MakePolicy, HasNoObjectForHogwild) {
  EXPECT_NO_THROW(require_policy(hogwild_policy::policy_name));
  EXPECT_THROW(make_policy(hogwild_policy::policy_name), std::invalid_argument);
}

} // namespace
} // namespace mailgrad
