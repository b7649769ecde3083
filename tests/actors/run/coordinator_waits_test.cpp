#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/coordinator.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

// What a coordinator itself waits for, in words: whoever asks a run that stands still learns why.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using kind = order_entry::kind;

/// A coordinator of two workers, three slots and two shards, all played by probes that answer nothing.
class CoordinatorWaits : public testing::DeterministicTest {
protected:
  using device_probe = testing::listener<list_wait_reasons, pause_worker, give_up, slot_given>;
  using shard_probe =
      testing::listener<list_wait_reasons, worker_left, report_shard, switch_policy, tell_trained>;

  void begin(std::shared_ptr<const recording> replayed = {}) {
    coordinator_options options;
    options.workers = 2;
    options.slots = 3;
    options.elastic = true;
    options.time = time_;
    options.waits_for_workers = replayed ? 0s : 60s;
    for (const auto& s : shards_) options.shards.push_back(s.actor());
    options.feeder = others_.actor();
    options.joining_workers = others_.actor();
    options.on_wait = [this](const wait_reason& w) {
      waits_.push_back(w.what);
      span_ = instant{w.span};
    };
    options.replayed = std::move(replayed);
    coordinator_ = start<coordinator>(std::move(options));
    for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, worker_joined{{r}, devices_[r].actor()});
  }

  /// In the recorded run worker 2 came late, and then the policy was switched.
  static std::shared_ptr<recording> one_came_late(const std::vector<std::uint8_t>& present) {
    recording r;
    r.header = {.workers = 2, .shards = 2, .facts = {}, .words = {}, .slots = 3};
    r.batches.resize(3);
    r.entries = std::vector(
        2, std::vector<order_entry>{{kind::joined, {0}}, {kind::joined, {1}}, {kind::joined, {2}}});
    r.end.switches = {{"sync", "by hand", {0, 0, 0}, present}};
    return std::make_shared<recording>(std::move(r));
  }
  void finish(std::uint32_t worker) {
    worker_report r;
    r.worker = {worker};
    tell(coordinator_, worker_finished{r});
  }
  std::vector<std::string> waits() {
    waits_.clear();
    tell(coordinator_, list_wait_reasons{});
    return waits_;
  }

  std::vector<std::string> waits_;
  instant span_{0}; ///< of the last of them
  device_probe new_device() { return listen<list_wait_reasons, pause_worker, give_up, slot_given>(); }
  shard_probe new_shard() {
    return listen<list_wait_reasons, worker_left, report_shard, switch_policy, tell_trained>();
  }

  std::array<device_probe, 3> devices_{new_device(), new_device(), new_device()};
  std::array<shard_probe, 2> shards_{new_shard(), new_shard()};
  testing::listener<bring_worker, watch_holds, share_lost, deal_again, count_undealt, stop_dealing> others_ =
      listen<bring_worker, watch_holds, share_lost, deal_again, count_undealt, stop_dealing>();
  caf::actor coordinator_;
};

/// The device knows since when it waits.
TEST_F(CoordinatorWaits, AskANewcomerThatHasNoSlotYet) {
  begin();
  tell(coordinator_, request_switch{"sync", "by hand"}); // nobody joins meanwhile
  tell(coordinator_, worker_joined{{2}, devices_[2].actor(), {}, true});
  waits();
  EXPECT_THAT(devices_[2].heard<list_wait_reasons>(), SizeIs(1));
}

TEST_F(CoordinatorWaits, NameTheWorkerThatAReplayHasSpawned) {
  begin(one_came_late({1, 1, 1}));
  ASSERT_THAT(others_.heard<bring_worker>(), SizeIs(1));
  time_->advance(2s);
  EXPECT_THAT(waits(), ElementsAre("the replay waits for worker 2 as incarnation 0"));
  EXPECT_EQ(span_, 2s);
  tell(coordinator_, worker_joined{{2}, devices_[2].actor(), {}, true});
  EXPECT_THAT(waits(), IsEmpty());
}

TEST_F(CoordinatorWaits, NameASwitchThatIsHeldBackForWhoCameBeforeIt) {
  begin(one_came_late({1, 1, 1}));
  tell(coordinator_, step_reached{1});
  time_->advance(2s);
  EXPECT_THAT(waits(), Contains("the switch from async to sync waits for a worker that had come before it"));
}

TEST_F(CoordinatorWaits, NameASwitchThatNobodyIsThereFor) {
  begin();
  tell(coordinator_, request_switch{"sync", "by hand"});
  messaging::kill(devices_[0].actor());
  messaging::kill(devices_[1].actor());
  run();
  EXPECT_THAT(waits(), Contains("the switch from async to sync waits for a worker"));
}

TEST_F(CoordinatorWaits, NameTheFeederThatHasNotToldOfTheBatchesOfALostWorker) {
  begin();
  messaging::kill(devices_[0].actor());
  run();
  for (std::uint32_t s = 0; s < 2; ++s) tell(coordinator_, trained_reported{{s}, {0}, {}, 3, 3, 24});
  time_->advance(2s);
  EXPECT_THAT(waits(), ElementsAre("lost worker 0 waits until the feeder says what became of its batches"));
  EXPECT_EQ(span_, 2s);
  tell(coordinator_, share_ended{{0}, {}, 0, 1});
  EXPECT_THAT(waits(), IsEmpty());
}

TEST_F(CoordinatorWaits, NameTheShardWhoseReportIsMissing) {
  begin();
  finish(0);
  finish(1);
  time_->advance(2s);
  EXPECT_THAT(waits(), ElementsAre("the end of the run waits for the report of shard 0"));
  EXPECT_EQ(span_, 2s);
  tell(coordinator_, shard_report{0, 10, {}, {}});
  EXPECT_THAT(waits(), ElementsAre("the end of the run waits for the report of shard 1"));
}

} // namespace
} // namespace mailgrad
