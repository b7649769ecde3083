#include <mailgrad/actors/listed.hpp>
#include <mailgrad/actors/shard_waits.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using namespace std::chrono_literals;

/// `last_step` of a worker whose gradient is judged and that waits for weights since `since`.
participant waiting(std::uint64_t last_step, instant since) {
  participant p;
  p.account.last_step = last_step;
  p.waiting_step = last_step;
  p.waits_since = since;
  return p;
}

participant gone() {
  participant p;
  p.left = true;
  p.in_policy = false;
  return p;
}

TEST(Listed, NamesAllBehindOneNoun) {
  EXPECT_EQ(listed("worker", {}), "");
  EXPECT_EQ(listed("worker", std::vector<std::uint32_t>{3}), "worker 3");
  EXPECT_EQ(listed("shard", std::vector<std::uint32_t>{0, 2, 5}), "shard 0, 2, 5");
}

TEST(ShardWaits, AreForThoseWhoComputeOrHaveNotJoined) {
  const std::vector<participant> workers{waiting(4, 2s), {}, gone(), waiting(4, 3s)};
  const std::vector<wait_named> waits = waits_of_workers(1, "sync", workers);
  ASSERT_THAT(waits, SizeIs(2));
  EXPECT_EQ(waits[0].what, "shard 1 holds worker 0 after step 4, sync policy, until it hears from worker 1");
  EXPECT_EQ(instant{waits[0].since}, 2s);
  EXPECT_EQ(waits[1].what, "shard 1 holds worker 3 after step 4, sync policy, until it hears from worker 1");
}

TEST(ShardWaits, AreForATurnWhereNobodyElseIsMissing) {
  const std::vector<wait_named> waits =
      waits_of_workers(0, "sync", std::vector<participant>{waiting(1, 0s), waiting(1, 0s)});
  ASSERT_THAT(waits, SizeIs(2));
  EXPECT_EQ(waits[0].what, "shard 0 holds worker 0 after step 1, sync policy, until its turn comes");
}

TEST(ShardWaits, AreNoneWhereNobodyIsHeld) {
  EXPECT_THAT(waits_of_workers(0, "async", std::vector<participant>(3)), IsEmpty());
}

TEST(ShardWaits, BeforeASwitchAreForThoseWhoTakePartInIt) {
  const switch_policy next{1, "async", {7, 7, 7, 7}, {1, 1, 0, 1}};
  const std::vector<participant> workers{waiting(6, 0s), {}, {}, gone()};
  EXPECT_THAT(awaited_before(next, workers), ElementsAre(0, 1));
  const wait_named wait = wait_for_switch(2, next, 5s, workers);
  EXPECT_EQ(wait.what, "shard 2 switches to async when it has the last gradient of worker 0, 1");
  EXPECT_EQ(instant{wait.since}, 5s);
}

} // namespace
} // namespace mailgrad
