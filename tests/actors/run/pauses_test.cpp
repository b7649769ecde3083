#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/coordinator.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>

// Whom a switch of policy pauses, in a run whose workers come and go.

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A coordinator and two devices, which are workers or incarnations of one, and a shard, which are played by
/// probes.
class Pauses : public testing::DeterministicTest {
protected:
  using device_probe = testing::listener<pause_worker, give_up, slot_given>;
  void begin(std::uint32_t workers, std::shared_ptr<const recording> replayed = {}) {
    coordinator_options options;
    options.workers = workers;
    options.elastic = true;
    options.shards.push_back(shard_.actor());
    options.feeder = feeder_.actor();
    options.replayed = std::move(replayed);
    coordinator_ = start<coordinator>(std::move(options));
    for (std::uint32_t r = 0; r < workers; ++r) tell(coordinator_, worker_joined{{r}, devices_[r].actor()});
  }

  std::array<device_probe, 2> devices_{listen<pause_worker, give_up, slot_given>(),
                                       listen<pause_worker, give_up, slot_given>()};
  testing::listener<switch_policy, worker_left, tell_trained> shard_ =
      listen<switch_policy, worker_left, tell_trained>();
  testing::listener<watch_holds, share_lost, deal_again, go_on_dealing> feeder_ =
      listen<watch_holds, share_lost, deal_again, go_on_dealing>();
  caf::actor coordinator_;
};

/// It was lost in the recorded run while the other one was paused. Its last gradient may wait for what that
/// one sends when it is paused.
TEST_F(Pauses, LeaveOutInAReplayWhoHadEndedAndDoNotWaitForItsEnd) {
  recording r;
  r.header.workers = 2;
  r.batches.resize(2);
  r.entries.resize(1);
  r.end.switches = {{"sync", "by hand", {0, 0}, {1, 0}}};
  begin(2, std::make_shared<const recording>(r));
  tell(coordinator_, step_reached{1});
  EXPECT_THAT(devices_[0].heard<pause_worker>(), SizeIs(1));
  EXPECT_THAT(devices_[1].heard<pause_worker>(), IsEmpty());
  tell(coordinator_, worker_paused{{0}, {1}, {3}, 3});
  EXPECT_THAT(shard_.heard<switch_policy>(), IsEmpty()) << "worker 1 has not ended yet";
  worker_report ended;
  ended.worker = {1};
  tell(coordinator_, worker_finished{ended});
  ASSERT_THAT(shard_.heard<switch_policy>(), SizeIs(1));
  EXPECT_THAT(shard_.heard<switch_policy>()[0].present, ElementsAre(1, 0));
}

/// Both pauses are for the same epoch, since the first switch was taken back.
TEST_F(Pauses, TakeNoWordOfAnEarlierIncarnation) {
  begin(1);
  tell(coordinator_, request_switch{"sync", "by hand"});
  ASSERT_THAT(devices_[0].heard<pause_worker>(), SizeIs(1));
  tell(coordinator_, worker_joined{{0}, devices_[1].actor(), {1}, true});
  tell(coordinator_, trained_reported{{0}, {0}, {0}, 0, 0});
  tell(coordinator_, share_ended{{0}, {0}});
  ASSERT_THAT(devices_[1].heard<pause_worker>(), SizeIs(1));
  EXPECT_EQ(devices_[1].heard<pause_worker>()[0].epoch, policy_epoch{1});
  tell(coordinator_, worker_paused{{0}, {1}, {3}, 3});
  EXPECT_THAT(shard_.heard<switch_policy>(), IsEmpty()) << "the second one has not paused";
  tell(coordinator_, worker_paused{{0}, {1}, {0}, 0, {1}});
  EXPECT_THAT(shard_.heard<switch_policy>(), SizeIs(1));
}

} // namespace
} // namespace mailgrad
