#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/shard/wait_reasons.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using namespace std::chrono_literals;

class WaitReasons : public testing::DeterministicTest {
protected:
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
  static worker_slot gone() {
    worker_slot p;
    p.left = true;
    return p;
  }
  static worker_slot left_out() {
    worker_slot p;
    p.in_policy = false;
    return p;
  }

  testing::listener<shard_weights> device_ = listen<shard_weights>();
};

TEST_F(WaitReasons, AreForThoseWhoComputeOrHaveNotJoined) {
  const std::vector<worker_slot> workers{waiting(4, 2s), {},          gone(), left_out(),
                                         waiting(4, 3s), computing(3)};
  const std::vector<wait_reason> waits = waits_of_workers({1}, "sync", workers, "", 10s);
  ASSERT_THAT(waits, SizeIs(2));
  EXPECT_EQ(waits[0].what, "shard 1 holds worker 0 after step 4, sync policy, until it hears from "
                           "worker 1 (not heard yet), 5 (heard 1.0 s ago)");
  EXPECT_EQ(instant{waits[0].span}, 8s);
  EXPECT_EQ(waits[1].what, "shard 1 holds worker 4 after step 4, sync policy, until it hears from "
                           "worker 1 (not heard yet), 5 (heard 1.0 s ago)");
  EXPECT_EQ(instant{waits[1].span}, 7s);
}

TEST_F(WaitReasons, AreForATurnWhereNobodyElseIsMissing) {
  const std::vector<wait_reason> waits =
      waits_of_workers({0}, "sync", std::vector<worker_slot>{waiting(1, 0s), waiting(1, 0s)}, "", 10s);
  ASSERT_THAT(waits, SizeIs(2));
  EXPECT_EQ(waits[0].what, "shard 0 holds worker 0 after step 1, sync policy, until its turn comes");
}

TEST_F(WaitReasons, AreNoneWhereNobodyIsHeld) {
  EXPECT_THAT(waits_of_workers({0}, "async", std::vector<worker_slot>{computing(1), {}}, "", 10s), IsEmpty());
}

TEST_F(WaitReasons, BeforeASwitchAreForTheLastGradientsOfThoseWhoTakePartInIt) {
  const switch_policy next{{1}, "async", {{7}, {7}, {7}, {7}, {7}, {7}}, {1, 1, 0, 1, 1, 1}};
  const std::vector<worker_slot> workers{computing(6), computing(7), computing(2),
                                         gone(),       {},           waiting(8, 0s)};
  EXPECT_THAT(awaited_before(next, workers), ElementsAre(0, 4));
  const wait_reason wait = wait_for_switch({2}, next, 5s, workers, 10s);
  EXPECT_EQ(wait.what, "shard 2 switches to async when it has the last gradient of "
                       "worker 0 (heard 1.0 s ago), 4 (not heard yet)");
  EXPECT_EQ(instant{wait.span}, 5s);
}

TEST_F(WaitReasons, BeforeASwitchAreForWhoIsCountedAndHasNotComeHereYet) {
  worker_slot empty = gone();
  empty.empty = true;
  worker_slot replaced = gone();
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

} // namespace
} // namespace mailgrad
