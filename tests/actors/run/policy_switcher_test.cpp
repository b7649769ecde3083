#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/coordinator.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A coordinator that switches, with two workers and two shards that are played by probes.
class PolicySwitcher : public testing::DeterministicTest {
protected:
  explicit PolicySwitcher(bool shares_credit = false) {
    coordinator_options options;
    options.shares_credit = shares_credit;
    options.workers = 2;
    options.policies = {{0, {"async", 2}}};
    for (const auto& s : shards_) options.shards.push_back(s.actor());
    options.feeder = feeder_.actor();
    options.on_wait = [this](const wait_reason& w) { waits_.push_back(w.what); };
    coordinator_ = start<coordinator>(std::move(options));
    for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, worker_joined{{r}, devices_[r].actor()});
  }

  /// What the coordinator itself waits for.
  std::vector<std::string> waits() {
    waits_.clear();
    tell(coordinator_, list_wait_reasons{});
    return waits_;
  }

  std::vector<std::string> waits_;
  using device_probe = testing::listener<pause_worker, list_wait_reasons, mark_at_end>;
  using shard_probe = testing::listener<switch_policy, list_wait_reasons, worker_left, free_credit>;
  device_probe new_device() { return listen<pause_worker, list_wait_reasons, mark_at_end>(); }
  shard_probe new_shard() { return listen<switch_policy, list_wait_reasons, worker_left, free_credit>(); }
  std::array<device_probe, 2> devices_{new_device(), new_device()};
  std::array<shard_probe, 2> shards_{new_shard(), new_shard()};
  testing::listener<go_on_dealing, worker_left> feeder_ = listen<go_on_dealing, worker_left>();
  caf::actor coordinator_;
};

TEST_F(PolicySwitcher, NamesEverybodyWhomItWaitsFor) {
  const std::string what = "the switch from async to sync waits for ";
  EXPECT_THAT(waits(), IsEmpty());
  tell(coordinator_, request_switch{"sync", "by hand"});
  EXPECT_THAT(waits(), ElementsAre(what + "worker 0 (heard 0.0 s ago), 1 (heard 0.0 s ago)"));
  tell(coordinator_, worker_paused{{0}, 1, 3, 3});
  EXPECT_THAT(waits(), ElementsAre(what + "worker 1 (heard 0.0 s ago)"));
  tell(coordinator_, worker_paused{{1}, 1, 4, 4});
  EXPECT_THAT(waits(), ElementsAre(what + "shards 0, 1"));
  tell(coordinator_, policy_switched{0, 1});
  EXPECT_THAT(waits(), ElementsAre(what + "shard 1"));
  tell(coordinator_, policy_switched{1, 1});
  EXPECT_THAT(waits(), IsEmpty());
}

struct SwitcherOfSharedCredit : PolicySwitcher {
  SwitcherOfSharedCredit() : PolicySwitcher(true) {}
};

TEST_F(SwitcherOfSharedCredit, TellsShardsThatWorkersMayStandStill) {
  tell(coordinator_, request_switch{"sync", "by hand"});
  for (auto& s : shards_) EXPECT_THAT(s.heard<free_credit>(), SizeIs(1));
}

TEST_F(SwitcherOfSharedCredit, TellsThemWhenAWorkerIsAboutToEnd) {
  tell(coordinator_, worker_at_end{{1}});
  for (auto& s : shards_) EXPECT_THAT(s.heard<free_credit>(), SizeIs(1));
}

TEST_F(PolicySwitcher, TellsNothingOfThatWhereNobodySharesCredit) {
  tell(coordinator_, request_switch{"sync", "by hand"});
  tell(coordinator_, worker_at_end{{1}});
  for (auto& s : shards_) EXPECT_THAT(s.heard<free_credit>(), IsEmpty());
}

TEST_F(PolicySwitcher, TakesNoAnswerToAnotherSwitch) {
  tell(coordinator_, request_switch{"sync", "by hand"});
  tell(coordinator_, worker_paused{{0}, 9, 3, 3});
  EXPECT_THAT(
      waits(),
      ElementsAre("the switch from async to sync waits for worker 0 (heard 0.0 s ago), 1 (heard 0.0 s ago)"));
  for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, worker_paused{{r}, 1, 3, 3});
  tell(coordinator_, policy_switched{0, 9});
  EXPECT_THAT(waits(), ElementsAre("the switch from async to sync waits for shards 0, 1"));
}

TEST_F(PolicySwitcher, TakesNoAnswerOfAWorkerThatHasNoSlot) {
  tell(coordinator_, request_switch{"sync", "by hand"});
  tell(coordinator_, worker_paused{{1'000'000}, 1, 3, 3});
  EXPECT_THAT(
      waits(),
      ElementsAre("the switch from async to sync waits for worker 0 (heard 0.0 s ago), 1 (heard 0.0 s ago)"));
}

TEST_F(PolicySwitcher, TellsShardsWhoIsPresentAndHowFarEachCame) {
  worker_report leaver;
  leaver.worker = {0};
  leaver.produced = 5;
  tell(coordinator_, worker_finished{leaver});
  tell(coordinator_, request_switch{"sync", "by hand"});
  tell(coordinator_, worker_paused{{1}, 1, 4, 4});
  for (auto& s : shards_) {
    ASSERT_THAT(s.heard<switch_policy>(), SizeIs(1));
    const switch_policy& order = s.heard<switch_policy>()[0];
    EXPECT_EQ(order.epoch.value, 1U);
    EXPECT_EQ(order.policy, "sync");
    EXPECT_THAT(order.steps, ElementsAre(step_number{0}, step_number{4}))
        << "nothing is awaited of who has left";
    EXPECT_THAT(order.present, ElementsAre(0, 1));
  }
}

} // namespace
} // namespace mailgrad
