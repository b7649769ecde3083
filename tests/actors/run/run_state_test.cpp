#include <mailgrad/actors/run/run_state.hpp>
#include <mailgrad/tests/support/manual_time.hpp>

#include <gmock/gmock.h>

#include <thread>

namespace mailgrad {
namespace {

using ::testing::ElementsAre, ::testing::IsEmpty;

constexpr std::chrono::milliseconds no_time{0};
constexpr std::chrono::hours long_time{1};

class RunState : public testing::Test {
protected:
  static run_outcome outcome(const std::string& why) {
    run_outcome o;
    o.why = why;
    return o;
  }

  const std::shared_ptr<testing::manual_time> time_ = std::make_shared<testing::manual_time>();
  run_state state_{time_};
};

TEST_F(RunState, KeepsWhatWasToldLast) {
  EXPECT_EQ(state_.progress().steps, 0u);
  state_.tell(training_progress{.steps = 3});
  state_.tell(training_progress{.steps = 4});
  state_.tell(checkpoint_account{.written = 2});
  EXPECT_EQ(state_.progress().steps, 4u);
  EXPECT_EQ(state_.checkpoints().written, 2u);
}

TEST_F(RunState, KnowsWhenTheRunEnded) {
  const instant began = time_->now();
  time_->advance(instant{5});
  EXPECT_EQ(state_.outcome(), nullptr);
  EXPECT_FALSE(state_.wait_for(no_time));
  EXPECT_EQ(state_.ended_or_now() - began, instant{5});

  state_.end(outcome("enough"));
  time_->advance(instant{7});
  EXPECT_EQ(state_.ended_or_now() - began, instant{5});
  EXPECT_TRUE(state_.wait_for(no_time));
  ASSERT_NE(state_.outcome(), nullptr);
  EXPECT_EQ(state_.outcome()->why, "enough");
  EXPECT_EQ(&state_.wait(), state_.outcome());
}

TEST_F(RunState, LetsItsOwnerWaitForTheEnd) {
  std::thread actor([this] { state_.end(outcome("enough")); });
  EXPECT_EQ(state_.wait().why, "enough");
  actor.join();
}

TEST_F(RunState, TellsEachWhoAsksTheWaitsThatComeWhileItAsks) {
  state_.tell(wait_reason{"shard 0 waits for worker 1", 2'000'000'000});
  EXPECT_THAT(state_.reported_waits([] {}, no_time), IsEmpty()) << "nobody had asked";

  std::thread actor;
  const auto ask = [&] {
    actor = std::thread([this] {
      state_.tell(wait_reason{"shard 0 waits for worker 1", 2'000'000'000});
      state_.tell(wait_reason{"worker 1 waits for a batch", 0});
      state_.end(outcome(""));
    });
  };
  EXPECT_THAT(state_.reported_waits(ask, long_time),
              ElementsAre("shard 0 waits for worker 1, for 2.0 s", "worker 1 waits for a batch, for 0.0 s"));
  actor.join();
  state_.tell(wait_reason{"worker 1 waits for a batch", 0}); // nobody asks any more
}

} // namespace
} // namespace mailgrad
