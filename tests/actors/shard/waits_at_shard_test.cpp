#include <mailgrad/tests/actors/shard/parameter_actor_fixture.hpp>
#include <mailgrad/tests/tensor/late_queue.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

// What a shard tells of the waits of its workers, and of its own.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ParameterActor;
using ::testing::SizeIs;

TEST_F(ParameterActor, SaysHowLongAGradientStayed) {
  serve("ssp:0", 2);
  push_gradient x = testing::push_of(0, 1, 0, testing::constant_gradient(layout_, 1));
  time_->advance(10s);
  x.payload.sent = time_->now() - 4s;
  tell(shard_, x);
  time_->advance(3s);
  push(1, 1, 0);
  ASSERT_THAT(weights_of(0), SizeIs(2));
  const auto stay = weights_of(0)[1].header.stay;
  ASSERT_TRUE(stay);
  EXPECT_EQ(instant{stay->in_mailbox}, 4s);
  EXPECT_EQ(instant{stay->under_bound}, 3s);
  EXPECT_EQ(instant{stay->until_answered}, 3s);
  EXPECT_EQ(stay->until_barrier, 0);
}

TEST_F(ParameterActor, NamesWhatItsProcessWaitsFor) {
  waits_here_ = [] { return std::vector<wait_reason>{{"worker 3 waits for room here", 42}}; };
  serve("async", 2);
  const auto named = ask<wait_reason>(shard_, list_wait_reasons{}).heard<wait_reason>();
  ASSERT_THAT(named, SizeIs(1));
  EXPECT_EQ(named[0].what, "worker 3 waits for room here");
  EXPECT_EQ(named[0].span, 42);
}

TEST_F(ParameterActor, NamesNoWaitForAsynchronousWorkers) {
  serve("async", 2);
  push(0, 1, 0);
  time_->advance(3s);
  push(0, 2, 1);
  EXPECT_EQ(weights_of(0).back().header.stay.value().until_barrier, 0);
  EXPECT_THAT(ask<wait_reason>(shard_, list_wait_reasons{}).heard<wait_reason>(), IsEmpty());
}

TEST_F(ParameterActor, SaysInWordsWhomItHoldsAndForWhom) {
  serve("sync", 3);
  push(1, 1, 0);
  time_->advance(2s);
  const auto waits = ask<wait_reason>(shard_, list_wait_reasons{}).heard<wait_reason>();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_THAT(waits[0].what, HasSubstr("shard 0 holds worker 1 after step 1"));
  EXPECT_THAT(waits[0].what, HasSubstr("worker 0 (heard 2.0 s ago), 2 (heard 2.0 s ago)"));
  EXPECT_EQ(instant{waits[0].span}, 2s);
}

TEST_F(ParameterActor, SaysSinceWhenASwitchWaits) {
  serve("async", 2);
  time_->advance(1s);
  tell(shard_, switch_policy{{1}, "sync", {{0}, {1}}, {1, 1}}); // worker 1 has a gradient under way
  time_->advance(2s);
  const auto waits = ask<wait_reason>(shard_, list_wait_reasons{}).heard<wait_reason>();
  ASSERT_FALSE(waits.empty());
  EXPECT_THAT(waits[0].what, HasSubstr("sync"));
  EXPECT_EQ(instant{waits[0].span}, 2s);
}

/// Tells of all events when it is asked to.
class kept_notices final : public event_watch {
public:
  void when_passed(device_event, notice tell) override { all_.push_back(std::move(tell)); }
  void tell() {
    for (const notice& n : std::exchange(all_, {})) n(nullptr);
  }

private:
  std::vector<notice> all_;
};

TEST_F(ParameterActor, SaysThatItsWeightsHaveNotComeFromTheGpu) {
  const auto late = std::make_shared<testing::late_queue>();
  const auto watch = std::make_shared<kept_notices>();
  queue_ = late;
  watch_ = watch;
  serve("async", 1);
  auto asked = ask<shard_read>(shard_, read_shard{});
  time_->advance(2s);
  const auto waits = ask<wait_reason>(shard_, list_wait_reasons{}).heard<wait_reason>();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].what, "shard 0 waits for its weights to come from the GPU, for 1 of those who asked");
  EXPECT_EQ(instant{waits[0].span}, 2s);
  EXPECT_THAT(asked.heard<shard_read>(), IsEmpty());
  late->run();
  watch->tell();
  run();
  EXPECT_THAT(asked.heard<shard_read>(), SizeIs(1));
  EXPECT_THAT(ask<wait_reason>(shard_, list_wait_reasons{}).heard<wait_reason>(), IsEmpty());
}

} // namespace
} // namespace mailgrad
