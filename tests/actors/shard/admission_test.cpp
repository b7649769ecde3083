#include <mailgrad/tests/actors/shard/parameter_actor_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

// Whose gradients and joinings a shard takes, and whose it does not.

namespace mailgrad {
namespace {

using testing::ParameterActor;
using ::testing::SizeIs;

TEST_F(ParameterActor, TakesNoGradientOfAnotherRun) {
  serve("async", 1);
  push_gradient x = testing::push_of(0, 1, 0, testing::constant_gradient(layout_, 1));
  x.header.id.run = {1};
  tell(shard_, x);
  EXPECT_THAT(weights_of(0), SizeIs(1)) << "it is not answered either";
  EXPECT_EQ(report().workers[0].ledger.produced, 0U);
}

/// A worker that was cut off sends its step 2 when another incarnation has taken its place, and that step
/// once more when it is there again.
TEST_F(ParameterActor, TakesNoGradientOfAnIncarnationThatIsNoMore) {
  serve("async", 1);
  push(0, 1, 0);
  tell(shard_, join_shard{{0}, {1}, devices_[0].actor()});
  push(0, 2, 1);
  EXPECT_EQ(report().workers[0].ledger.produced, 1U);
  push_gradient first = testing::push_of(0, 1, 1, testing::constant_gradient(layout_, 1));
  first.header.id.incarnation = {1};
  tell(shard_, first);
  EXPECT_EQ(report().workers[0].ledger.applied, 2U) << "it counts its steps from 1 again";
  tell(shard_, first);
  EXPECT_EQ(report().workers[0].ledger.produced, 2U);
}

/// A gradient of memory that this shard cannot read would end it if it were touched.
TEST_F(ParameterActor, LooksAtNothingOfWhoIsFencedOff) {
  serve("async", 1);
  tell(shard_, join_shard{{0}, {1}, devices_[0].actor()});
  float elsewhere[16] = {};
  auto out_of_reach = std::make_shared<gradient>();
  out_of_reach->dense =
      memory(device_block({device_kind::cuda, 0}, elsewhere, sizeof elsewhere, [](void*) {}));
  tell(shard_, testing::push_of(0, 1, 0, out_of_reach));
  EXPECT_EQ(report().workers[0].ledger.produced, 0U);
  push_gradient x = testing::push_of(0, 1, 0, testing::constant_gradient(layout_, 1));
  x.header.id.incarnation = {1};
  tell(shard_, x);
  EXPECT_EQ(report().workers[0].ledger.produced, 1U);
}

TEST_F(ParameterActor, IsJoinedByNoIncarnationThatIsNoMore) {
  serve("async", 1);
  tell(shard_, join_shard{{0}, {1}, devices_[0].actor()});
  const std::size_t answers = weights_of(0).size();
  const auto late = listen<shard_weights>();
  tell(shard_, join_shard{{0}, {0}, late.actor()});
  EXPECT_THAT(weights_of(0), SizeIs(answers));
  push_gradient x = testing::push_of(0, 1, 0, testing::constant_gradient(layout_, 1));
  x.header.id.incarnation = {1};
  tell(shard_, x);
  EXPECT_THAT(weights_of(0), SizeIs(answers + 1)) << "the later one is still the worker";
}

/// Under a barrier the others would wait for a rank whose next incarnation is not one of the policy's
/// workers.
TEST_F(ParameterActor, CountsTheNextIncarnationAmongTheWorkersOfItsPolicy) {
  serve("sync", 2);
  tell(shard_, worker_left{{1}});
  push(0, 1, 0);
  ASSERT_EQ(report().version.value, 1U) << "nobody else is there";
  tell(shard_, join_shard{{1}, {1}, devices_[1].actor()});
  EXPECT_THAT(weights_of(1), SizeIs(2)) << "it starts from the present weights";
  push(0, 2, 1);
  EXPECT_EQ(report().version.value, 1U) << "the barrier waits for it";
  push_gradient x = testing::push_of(1, 1, 1, testing::constant_gradient(layout_, 1));
  x.header.id.incarnation = {1};
  tell(shard_, x);
  EXPECT_EQ(report().version.value, 2U);
}

TEST_F(ParameterActor, LetsNoLateWordOfAnEndEvictTheNextIncarnation) {
  serve("sync", 2);
  tell(shard_, join_shard{{1}, {1}, devices_[1].actor()});
  tell(shard_, worker_left{{1}, {0}});
  push(0, 1, 0);
  EXPECT_EQ(report().version.value, 0U) << "the barrier waits for the second incarnation";
  tell(shard_, worker_left{{1}, {1}});
  EXPECT_EQ(report().version.value, 1U);
}

TEST_F(ParameterActor, IsNotJoinedByAnIncarnationThatHasLeft) {
  serve("sync", 2);
  tell(shard_, worker_left{{1}, {2}});
  const std::size_t answers = weights_of(1).size();
  tell(shard_, join_shard{{1}, {2}, devices_[1].actor()});
  EXPECT_THAT(weights_of(1), SizeIs(answers));
  push(0, 1, 0);
  EXPECT_EQ(report().version.value, 1U) << "nobody waits for it";
}

TEST_F(ParameterActor, TakesAGradientThatArrivesTwiceOnce) {
  serve("async", 1);
  push(0, 1, 0);
  push(0, 1, 0);
  push(0, 2, 1);
  push(0, 1, 0);
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 2U);
  EXPECT_EQ(r.workers[0].last_step.value, 2U);
  EXPECT_EQ(r.workers[0].ledger, (gradient_ledger{2, 2, 0, {}, 0}));
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 2);
}

TEST_F(ParameterActor, IgnoresAWorkerOfUnknownRank) {
  serve("async", 1);
  push(7, 1, 0);
  tell(shard_, join_shard{{7}, {}, devices_[0].actor()});
  tell(shard_, worker_left{{7}});
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 0U);
  EXPECT_THAT(r.workers, SizeIs(1));
  EXPECT_THAT(weights_of(0), SizeIs(1));
}

TEST_F(ParameterActor, IgnoresAWorkerThatHasNotJoined) {
  auto weights = std::make_shared<shard>(layout_, 0, 1, testing::sgd(1));
  shard_ = start<parameter_actor>(
      parameter_actor_options{{std::move(weights), {"async", 1}, 1, time_}, tracker_.actor()});
  push(0, 1, 0);
  EXPECT_EQ(report().version.value, 0U);
}

TEST_F(ParameterActor, IgnoresThePushOfAWorkerThatLeft) {
  serve("async", 2);
  tell(shard_, worker_left{{1}});
  push(1, 1, 0);
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 0U);
  EXPECT_EQ(r.workers[1].ledger.produced, 0U);
  EXPECT_THAT(weights_of(1), SizeIs(1));
}

} // namespace
} // namespace mailgrad
