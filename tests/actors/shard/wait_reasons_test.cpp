#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/tests/actors/shard/parameter_actor_fixture.hpp>
#include <mailgrad/tests/tensor/late_queue.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre, ::testing::HasSubstr, ::testing::IsEmpty, ::testing::SizeIs;
using testing::only, testing::ParameterActor;

struct WaitReasons : ::testing::Test {
  /// A worker that computes, and whose last gradient was that of `last_step`.
  worker_slot computing(std::uint64_t last_step) const {
    worker_slot p;
    p.here = true;
    p.account.last_step = p.waiting_step = {last_step};
    p.heard_at = 9s;
    return p;
  }
  worker_slot waiting(std::uint64_t last_step, instant since) const {
    worker_slot p = computing(last_step);
    p.waits_since = since;
    return p;
  }
  static worker_slot with(bool worker_slot::*what, bool is) {
    worker_slot p;
    p.*what = is;
    return p;
  }
  const worker_slot gone = with(&worker_slot::left, true), left_out = with(&worker_slot::in_policy, false);
};

TEST_F(WaitReasons, AreForThoseWhoComputeOrHaveNotJoined) {
  const std::vector<worker_slot> workers{waiting(4, 2s), {}, gone, left_out, waiting(4, 3s), computing(3)};
  const std::vector<wait_reason> waits = waits_of_workers({1}, "sync", workers, "", 10s);
  const std::string behind = " after step 4, sync policy, until it hears from worker 1 (not heard yet), 5 "
                             "(heard 1.0 s ago)";
  ASSERT_THAT(waits, SizeIs(2));
  EXPECT_EQ(waits[0].what, "shard 1 holds worker 0" + behind);
  EXPECT_EQ(instant{waits[0].span}, 8s);
  EXPECT_EQ(waits[1].what, "shard 1 holds worker 4" + behind);
  EXPECT_EQ(instant{waits[1].span}, 7s);
}

TEST_F(WaitReasons, AreForATurnWhereNobodyElseIsMissing) {
  const std::vector<worker_slot> both{waiting(1, 0s), waiting(1, 0s)}, none{computing(1), {}};
  const std::vector<wait_reason> waits = waits_of_workers({0}, "sync", both, "", 10s);
  ASSERT_THAT(waits, SizeIs(2));
  EXPECT_EQ(waits[0].what, "shard 0 holds worker 0 after step 1, sync policy, until its turn comes");
  EXPECT_THAT(waits_of_workers({0}, "async", none, "", 10s), IsEmpty()) << "nobody is held";
}

TEST_F(WaitReasons, BeforeASwitchAreForTheLastGradientsOfThoseWhoTakePartInIt) {
  const switch_policy next{{1}, "async", {{7}, {7}, {7}, {7}, {7}, {7}}, {1, 1, 0, 1, 1, 1}};
  const std::vector<worker_slot> workers{computing(6), computing(7), computing(2), gone, {}, waiting(8, 0s)};
  EXPECT_THAT(awaited_before(next, workers), ElementsAre(0, 4));
  const wait_reason wait = wait_for_switch({2}, next, 5s, workers, 10s);
  EXPECT_EQ(wait.what, "shard 2 switches to async when it has the last gradient of "
                       "worker 0 (heard 1.0 s ago), 4 (not heard yet)");
  EXPECT_EQ(instant{wait.span}, 5s);
}

TEST_F(WaitReasons, BeforeASwitchAreForWhoIsCountedAndHasNotComeHereYet) {
  worker_slot empty = gone;
  empty.empty = true;
  worker_slot replaced = gone;
  worker_slot here = computing(1);
  here.incarnation = {1};
  const switch_policy next{{1}, "async", {{0}, {0}, {0}, {0}}, {1, 1, 1, 0}, {{0}, {1}, {1}, {0}}};
  EXPECT_THAT(awaited_before(next, std::vector<worker_slot>{empty, replaced, here, empty}),
              ElementsAre(0, 1));
}

TEST_F(WaitReasons, BeforeASwitchAreForTheFirstShardWhereNoGradientIsMissing) {
  const wait_reason wait =
      wait_for_switch({1}, {{1}, "sync", {{7}}, {1}}, 0s, std::vector<worker_slot>{computing(7)}, 9s);
  EXPECT_EQ(wait.what, "shard 1 switches to sync when the order that it follows comes to that");
}

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
  EXPECT_EQ(only(waits()).what, "worker 3 waits for room here");
  EXPECT_EQ(waits()[0].span, 42);
}

TEST_F(ParameterActor, NamesNoWaitForAsynchronousWorkers) {
  serve("async", 2);
  push(0, 1, 0);
  time_->advance(3s);
  push(0, 2, 1);
  EXPECT_EQ(weights_of(0).back().header.stay.value().until_barrier, 0);
  EXPECT_THAT(waits(), IsEmpty());
}

TEST_F(ParameterActor, SaysInWordsWhomItHoldsAndForWhom) {
  serve("sync", 3);
  push(1, 1, 0);
  time_->advance(2s);
  const wait_reason wait = only(waits());
  EXPECT_THAT(wait.what, HasSubstr("shard 0 holds worker 1 after step 1"));
  EXPECT_THAT(wait.what, HasSubstr("worker 0 (heard 2.0 s ago), 2 (heard 2.0 s ago)"));
  EXPECT_EQ(instant{wait.span}, 2s);
}

TEST_F(ParameterActor, SaysSinceWhenASwitchWaits) {
  serve("async", 2);
  time_->advance(1s);
  tell(shard_, switch_policy{{1}, "sync", {{0}, {1}}, {1, 1}}); // worker 1 has a gradient under way
  time_->advance(2s);
  EXPECT_THAT(waits().at(0).what, HasSubstr("sync"));
  EXPECT_EQ(instant{waits().at(0).span}, 2s);
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
  EXPECT_EQ(only(waits()).what,
            "shard 0 waits for its weights to come from the GPU, for 1 of those who asked");
  EXPECT_EQ(instant{waits()[0].span}, 2s);
  EXPECT_THAT(asked.heard<shard_read>(), IsEmpty());
  late->run();
  watch->tell();
  run();
  EXPECT_THAT(asked.heard<shard_read>(), SizeIs(1));
  EXPECT_THAT(waits(), IsEmpty());
}

} // namespace
} // namespace mailgrad
