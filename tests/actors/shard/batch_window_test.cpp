#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/scheduler/stepping_system.hpp>
#include <mailgrad/tests/actors/shard/parameter_actor_fixture.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// What a shard does under a policy that closes a batch at a moment.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using kind = order_entry::kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A timer that the test plays.
class played_timer final : public step_timer {
public:
  void at(instant when, notice tell) override { asked.emplace_back(when, std::move(tell)); }
  std::vector<std::pair<instant, notice>> asked;
};

class BatchWindow : public testing::ParameterActor {
protected:
  explicit BatchWindow(std::uint32_t shards = 1) : ParameterActor(shards) { timer_ = played_; }

  /// The moment that the shard asked for as the n-th has come.
  void pass(std::size_t n) {
    time_->advance(1s);
    played_->asked.at(n).second();
    run();
  }

  const std::shared_ptr<played_timer> played_ = std::make_shared<played_timer>();
};

TEST_F(BatchWindow, ClosesTheBatchWhenItIsOver) {
  serve("quorum:2,grace=0.25", 3);
  push(0, 1, 0, 2);
  EXPECT_THAT(played_->asked, IsEmpty());
  push(1, 1, 0, 4);
  ASSERT_EQ(played_->asked.size(), 1U);
  EXPECT_EQ(played_->asked[0].first, time_->now() + 250ms);
  EXPECT_EQ(weights_of(0).size(), 1U) << "the batch waits for the third";
  pass(0);
  ASSERT_EQ(weights_of(0).size(), 2U);
  ASSERT_EQ(weights_of(1).size(), 2U);
  EXPECT_EQ(weights_of(2).size(), 1U) << "it still computes";
  EXPECT_EQ(weights_of(1)[1].header.version.value, 1U);
  EXPECT_FLOAT_EQ(moved(weights_of(1)[1]), 3);
  push(2, 1, 0, 1);
  push(0, 2, 1, 1);
  ASSERT_EQ(played_->asked.size(), 2U) << "who was late is in the next batch";
  pass(1);
  const shard_report r = report();
  EXPECT_EQ(r.version.value, 2U);
  EXPECT_THAT(r.workers[2].gaps.buckets(), ElementsAre(::testing::Pair(1, 1)));
}

/// A worker tells how many samples it has had in all, and a gradient weighs what it adds to them.
TEST_F(BatchWindow, WeighsGradientsByTheirSamples) {
  serve("quorum:2", 2);
  const auto push_after = [this](std::uint32_t worker, std::uint64_t step, float value,
                                 std::uint64_t samples) {
    push_gradient x = testing::push_of(worker, step, step - 1, testing::constant_gradient(layout_, value));
    x.header.samples = samples;
    tell(shard_, x);
  };
  push_after(0, 1, 1, 6);
  push_after(1, 1, 5, 2);
  EXPECT_FLOAT_EQ(moved(weights_of(0)[1]), (6 * 1.0F + 2 * 5.0F) / 8);
  push_after(0, 2, 1, 8);
  push_after(1, 2, 5, 8);
  EXPECT_FLOAT_EQ(moved(weights_of(0)[2]), 2 + (2 * 1.0F + 6 * 5.0F) / 8);
}

TEST_F(BatchWindow, ClosesNoOtherBatchThanItsOwn) {
  serve("quorum:2,grace=0.25", 3);
  for (std::uint32_t r = 0; r < 3; ++r) push(r, 1, 0);
  EXPECT_EQ(weights_of(0).size(), 2U) << "all are there";
  push(0, 2, 1);
  pass(0);
  EXPECT_EQ(weights_of(0).size(), 2U);
  EXPECT_EQ(report().version.value, 1U);
}

TEST_F(BatchWindow, IsNotWatchedByAShardThatFollowsTheOrder) {
  auto recorded = std::make_shared<recording>();
  recorded->header.workers = 3;
  recorded->header.shards = 1;
  recorded->entries.push_back({{kind::joined, {0}},
                               {kind::joined, {1}},
                               {kind::joined, {2}},
                               {kind::gradient, {0}, {1}},
                               {kind::gradient, {1}, {1}},
                               {kind::closed, {}, {}, {}, 7},
                               {kind::gradient, {2}, {1}},
                               {kind::gradient, {0}, {2}}});
  recorded->batches.resize(3);
  replayed_ = recorded;
  serve("quorum:2,grace=0.25", 3);
  push(1, 1, 0, 4);
  push(0, 1, 0, 2);
  EXPECT_THAT(played_->asked, IsEmpty());
  ASSERT_EQ(weights_of(0).size(), 2U) << "the recording closes the batch";
  EXPECT_FLOAT_EQ(moved(weights_of(0)[1]), 3);
}

/// In the recorded run the gradient was lost on its way to this shard, and no other one came in time.
TEST_F(BatchWindow, MakesAVersionInAReplayOfABatchWhoseGradientsWereMissed) {
  auto recorded = std::make_shared<recording>();
  recorded->header.workers = 2;
  recorded->header.shards = 1;
  recorded->entries.push_back({{kind::joined, {0}},
                               {kind::joined, {1}},
                               {kind::missed, {1}, {1}},
                               {kind::closed, {}, {}, {}, 7},
                               {kind::gradient, {0}, {1}}});
  recorded->batches.resize(2);
  replayed_ = recorded;
  serve("quorum:1,grace=0.25", 2);
  push(1, 1, 0);
  EXPECT_EQ(report().version.value, 1U);
}

TEST_F(BatchWindow, IsNotedForAReplay) {
  auto recorder = listen<order_noted>();
  recorder_ = recorder.actor();
  serve("quorum:1,grace=0.25", 2);
  push(1, 1, 0);
  const std::int64_t moment = (time_->now() + 250ms).count();
  pass(0);
  report();
  std::vector<order_entry> closed;
  for (const order_noted& told : recorder.heard<order_noted>())
    for (const order_entry& entry : told.entries)
      if (entry.what == kind::closed) closed.push_back(entry);
  EXPECT_THAT(closed, ElementsAre(order_entry{kind::closed, {}, {}, {}, moment}));
}

/// An actor that has a window but no timer, and tells how the first watch ended.
class without_timer {
public:
  static constexpr const char* name = "mailgrad.test.without-timer";

  without_timer(caf::event_based_actor* self, std::string* said)
      : self_(self), window_(self, nullptr), said_(said) {}

  caf::behavior make_behavior() {
    try {
      window_.watch(1);
    } catch (const std::logic_error& e) {
      *said_ = e.what();
    }
    return {messaging::on(self_, [](const give_up&) {})};
  }

private:
  caf::event_based_actor* self_;
  batch_window window_;
  std::string* said_;
};

/// The thread of the process's timer would change the queues of a system that has no lock for them.
TEST(BatchWindowOnOneThread, RefusesTheTimerOfTheProcess) {
  std::string said;
  stepping_system system(true);
  const caf::actor asks = messaging::spawn<without_timer>(system.actors(), &said);
  system.run();
  messaging::kill(asks);
  EXPECT_THAT(said, HasSubstr("another thread"));
}

/// The second of two shards; the test plays the first.
class LedBatchWindow : public BatchWindow {
protected:
  LedBatchWindow() : BatchWindow(2) {}
};

TEST_F(LedBatchWindow, IsClosedWhenTheFirstShardSaysSo) {
  serve("quorum:2,grace=0.25", 3);
  for (std::uint32_t r = 0; r < 3; ++r) tell(shard_, order_entry{kind::joined, {r}});
  for (std::uint32_t r = 0; r < 2; ++r) {
    push(r, 1, 0);
    tell(shard_, order_entry{kind::gradient, {r}, {1}, 0, 100});
  }
  EXPECT_THAT(played_->asked, IsEmpty());
  EXPECT_EQ(report().version.value, 0U);
  tell(shard_, order_entry{kind::closed, {}, {}, {}, 250});
  EXPECT_EQ(report().version.value, 1U);
}

/// A first shard that is as it should be awaits the others with each worker's next step.
TEST_F(LedBatchWindow, EndsItsShardIfTheFirstOneRunsAway) {
  serve("quorum:2,grace=0.25", 3);
  tell(shard_, order_entry{kind::joined, {0}});
  for (std::uint64_t step = 1; step <= 1000; ++step) tell(shard_, order_entry{kind::gradient, {0}, {step}});
  EXPECT_EQ(report().version.value, 0U) << "they wait for gradients";
  for (std::uint64_t step = 1001; step <= 1300; ++step)
    tell(shard_, order_entry{kind::gradient, {0}, {step}});
  EXPECT_THAT(ask<shard_report>(shard_, report_shard{}).heard<shard_report>(), IsEmpty()) << "it has ended";
}

} // namespace
} // namespace mailgrad
