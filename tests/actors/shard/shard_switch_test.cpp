#include <mailgrad/tests/actors/shard/parameter_actor_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

// How a shard goes from one policy to the next.

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using testing::ParameterActor;
using ::testing::SizeIs;

TEST_F(ParameterActor, SwitchesOnceItHasTakenWhatIsUnderWay) {
  serve("async", 2);
  push(0, 1, 0);
  tell(shard_, switch_policy{{1}, "sync", {{1}, {1}}, {1, 1}});
  EXPECT_THAT(weights_of(0), SizeIs(2)) << "a gradient of worker 1 is still under way";
  push(1, 1, 0);
  for (std::uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(weights_of(r).back().header.epoch.value, 1U);
    EXPECT_EQ(weights_of(r).back().header.version.value, 2U) << "all begin with the same version";
  }
  epoch_ = 1;
  push(0, 2, 2);
  EXPECT_EQ(weights_of(0).back().header.version.value, 2U) << "now there is a barrier";
  push(1, 2, 2);
  EXPECT_EQ(weights_of(0).back().header.version.value, 3U);
  EXPECT_EQ(report().workers[0].ledger, (gradient_ledger{2, 1, 1, {}, 0}));
}

TEST_F(ParameterActor, ClosesItsBatchAtASwitch) {
  serve("sync", 2);
  push(0, 1, 0);
  tell(shard_, switch_policy{{1}, "async", {{1}, {0}}, {1, 1}});
  EXPECT_EQ(weights_of(0).back().header.version.value, 1U);
  EXPECT_EQ(weights_of(1).back().header.version.value, 1U);
  EXPECT_FLOAT_EQ(moved(weights_of(0).back()), 1) << "the mean of the one gradient there was";
}

TEST_F(ParameterActor, DoesNotWaitAtASwitchForWhoLeft) {
  serve("async", 2);
  tell(shard_, switch_policy{{1}, "sync", {{0}, {5}}, {1, 1}});
  EXPECT_EQ(weights_of(0).back().header.epoch.value, 0U);
  tell(shard_, worker_left{{1}});
  EXPECT_EQ(weights_of(0).back().header.epoch.value, 1U);
  epoch_ = 1;
  push(0, 1, 0);
  EXPECT_EQ(weights_of(0).back().header.version.value, 1U) << "a barrier of one";
}

TEST_F(ParameterActor, BeginsWithoutWhoIsNotPresentThoughItHasNotHeardThatItLeft) {
  for (const char* policy : {"sync", "backup:1", "ssp:1", "dssp:1,2", "k-async:2", "rennala:2"}) {
    devices_.clear();
    epoch_ = 0;
    serve("async", 2);
    push(1, 1, 0);
    tell(shard_, switch_policy{{1}, policy, {{0}, {1}}, {1, 0}});
    EXPECT_EQ(weights_of(0).back().header.epoch.value, 1U);
    EXPECT_EQ(weights_of(1).back().header.epoch.value, 0U) << "it takes no part";
    tell(shard_, worker_left{{1}});
    epoch_ = 1;
    push(0, 1, 1);
    EXPECT_GT(weights_of(0).back().header.version.value + weights_of(0).size(), 3U)
        << policy << ": nobody holds it";
  }
}

TEST_F(ParameterActor, DropsAGradientOfAnotherEpoch) {
  serve("async", 1);
  push(0, 1, 0);
  tell(shard_, switch_policy{{1}, "sync", {{1}}, {1}});
  push(0, 2, 1);
  const shard_report r = report();
  EXPECT_EQ(r.workers[0].ledger.discarded.at("other epoch"), 1U);
  EXPECT_THAT(r.workers[0].discarded_gaps.buckets(), ElementsAre(Pair(0, 1)));
  EXPECT_EQ(weights_of(0).back().header.version.value, 1U);
  const auto is_discard = [](const trace_event& e) { return e.what == trace_kind::discard; };
  const auto told = std::ranges::find_if(r.trace->events(), is_discard);
  ASSERT_NE(told, r.trace->events().end());
  EXPECT_EQ(told->word, "other epoch");
  EXPECT_THAT(weights_of(0), SizeIs(4)) << "it is answered as every push";
}

} // namespace
} // namespace mailgrad
