#include <mailgrad/tests/actors/worker/played_worker.hpp>

#include <gmock/gmock.h>

#include <bit>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::SizeIs;

class ShardLines : public testing::PlayedWorker {
protected:
  /// All shards have answered the join with version 0.
  void join() {
    act([&] { lines_.join(); });
    for (std::uint32_t s = 0; s < 2; ++s) lines_.note(answer(s, 0), time_->now(), 0ns);
  }

  shard_lines lines_{context(), shards()};
};

TEST_F(ShardLines, JoinAndLeaveEveryShardAsThisIncarnation) {
  act([&] { lines_.join(); });
  act([&] { lines_.leave(); });
  for (auto& shard : probes_) {
    ASSERT_THAT(shard.heard<join_shard>(), SizeIs(1));
    const join_shard& joined = shard.heard<join_shard>()[0];
    EXPECT_EQ(joined.worker, rank{1});
    EXPECT_EQ(joined.life, incarnation{2});
    EXPECT_EQ(joined.device, caf::actor_cast<caf::actor>(self_));
    ASSERT_THAT(shard.heard<worker_left>(), SizeIs(1));
    EXPECT_EQ(shard.heard<worker_left>()[0].worker, rank{1});
    EXPECT_EQ(shard.heard<worker_left>()[0].life, incarnation{2});
  }
}

TEST_F(ShardLines, HaveAnAnswerWhenEveryShardHasGivenOne) {
  act([&] { lines_.join(); });
  EXPECT_FALSE(lines_.all_answered());
  lines_.note(answer(1, 0), time_->now(), 0ns);
  EXPECT_FALSE(lines_.all_answered());
  EXPECT_EQ(lines_.waits_for(), "the weights of 1 of 2 shards after step 0");
  lines_.note(answer(0, 0), time_->now(), 0ns);
  EXPECT_TRUE(lines_.all_answered());
}

TEST_F(ShardLines, PushToEachShardWithTheVersionThatItSent) {
  act([&] { lines_.join(); });
  lines_.note(answer(0, 5), time_->now(), 11ns);
  lines_.note(answer(1, 8), time_->now(), 12ns);
  const auto g = std::make_shared<const gradient>();
  time_->advance(1s);
  act([&] { lines_.push(g, 0.5F, time_->now(), 3ns); });
  for (std::size_t s = 0; s < 2; ++s) {
    ASSERT_THAT(pushed(s), SizeIs(1));
    const push_gradient& x = pushed(s)[0];
    EXPECT_EQ(x.header.id, (gradient_id{{7}, {1}, {2}, {1}}));
    EXPECT_EQ(x.header.version_read.value, s == 0 ? 5U : 8U);
    EXPECT_EQ(x.header.scale_bits, std::bit_cast<std::uint32_t>(0.5F));
    EXPECT_EQ(x.header.times.read, s == 0 ? 11ns : 12ns);
    EXPECT_EQ(x.header.times.compute, 3ns);
    EXPECT_EQ(x.payload.values, g);
    EXPECT_EQ(x.payload.sent, time_->now());
    EXPECT_FALSE(x.payload.read);
  }
  EXPECT_EQ(report_.produced, 1U);
  EXPECT_EQ(lines_.step().value, 1U);
  EXPECT_FALSE(lines_.all_answered());
  EXPECT_EQ(lines_.waits_since(), time_->now());
}

/// So that a shard without other readers may update in place.
TEST_F(ShardLines, LetTheirWeightsGoBeforeTheyPush) {
  join();
  const std::weak_ptr<const memory> held = lines_.weights(0).owner();
  EXPECT_FALSE(held.expired());
  act([&] { lines_.push(std::make_shared<const gradient>(), 1, time_->now(), 0ns); });
  EXPECT_TRUE(held.expired());
}

TEST_F(ShardLines, SendTheWeightsAlongWithASampledGradient) {
  join();
  const snapshot held = lines_.weights(1);
  act([&] { lines_.push(std::make_shared<const gradient>(), 1, time_->now(), 0ns, true); });
  EXPECT_EQ(pushed(1)[0].payload.read, held);
  EXPECT_FALSE(lines_.weights(1));
}

TEST_F(ShardLines, WaitForEveryShardAnewWhenAnotherPolicyBegins) {
  join();
  lines_.begin_epoch({3});
  EXPECT_FALSE(lines_.all_answered());
  EXPECT_FALSE(lines_.weights(0));
  EXPECT_EQ(lines_.epoch().value, 3U);
  time_->advance(2s);
  for (std::uint32_t s = 0; s < 2; ++s) lines_.note(answer(s, 4), time_->now(), 0ns);
  lines_.end_waits();
  EXPECT_EQ(instant{report_.barrier_wait}, 2s) << "the fence is a barrier for all";
  act([&] { lines_.push(std::make_shared<const gradient>(), 1, time_->now(), 0ns); });
  EXPECT_EQ(pushed(0)[0].header.epoch.value, 3U);
}

/// The worker waited for both shards at the same time.
TEST_F(ShardLines, CountTheLongestWaitOfAStepAndNotTheSum) {
  act([&] { lines_.join(); });
  lines_.note(answer(0, 1, 0, stay_at_shard{0, 700, 20, 720}), time_->now(), 0ns);
  lines_.note(answer(1, 1, 0, stay_at_shard{0, 400, 50, 450}), time_->now(), 0ns);
  lines_.end_waits();
  EXPECT_EQ(report_.barrier_wait, 700);
  EXPECT_EQ(report_.bound_wait, 50);
  lines_.end_waits();
  EXPECT_EQ(report_.barrier_wait, 700) << "each wait counts once";
  EXPECT_EQ(report_.bound_wait, 50);
}

} // namespace
} // namespace mailgrad
