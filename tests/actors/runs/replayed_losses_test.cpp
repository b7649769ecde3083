#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/ordered_policies.hpp>
#include <mailgrad/tests/actors/runs/recorded_runs.hpp>
#include <mailgrad/tests/actors/runs/treated_runs.hpp>

#include <mailgrad/engine/record/recorded_incarnations.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

// Runs in which workers are lost, leave, come late and come back, recorded in one order of delivery and
// repeated in others: a replay comes to the same weights, though nobody is lost in it.

namespace mailgrad {
using messaging::kill, messaging::send_anonymously;

namespace {

using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using testing::finished_run;
using testing::RecordedRun;

constexpr std::uint64_t orders = 60;
constexpr std::uint32_t slots = 5;
const bool many_orders = drawn_orders(orders).count() == orders;

class ReplayedLosses : public RecordedRun {
protected:
  static assembly with_slots(const std::string& policy, std::uint32_t shards) {
    assembly a;
    a.policy = policy;
    a.shards = shards;
    a.slots = slots;
    a.batches = 14;
    return a;
  }

  std::size_t length_of(const assembly& a) {
    drawn_order order(0);
    const assembled_run run = assemble(a);
    return deliver(order);
  }

  /// A worker joins, comes back, leaves or is killed.
  static void one_event(assembled_run& run, drawn_order& order, std::vector<std::uint32_t>& incarnations) {
    const auto r = static_cast<std::uint32_t>(order.below(run_slots(run)));
    const std::uint64_t what = order.below(4);
    const bool never_came = r >= run.devices.size() || !run.devices[r];
    if (never_came || what == 0) return run.add_worker(r, incarnations[r] += never_came ? 0 : 1);
    if (what == 1) return send_anonymously(run.devices[r], leave_run{});
    kill(run.devices[r]);
  }
  static std::uint32_t run_slots(const assembled_run&) { return slots; }

  /// Runs and records `a` while workers come and go. `switches`: the policy switches, too.
  std::optional<finished_run> disturbed(const assembly& a, drawn_order& order, std::size_t length,
                                        bool switches) {
    std::vector<std::uint32_t> incarnations(slots);
    return finish(a, order, [&](assembled_run& run) {
      for (std::uint64_t i = 1 + order.below(6); i > 0; --i) {
        deliver(order, order.below(length / 3));
        if (switches && order.below(3) == 0)
          send_anonymously(run.coordinator_actor,
                           request_switch{order.below(2) == 0 ? "ssp:1" : "sync", "by hand"});
        else
          one_event(run, order, incarnations);
      }
    });
  }

  /// What a worker had trained that nobody knew of, a replay leaves out.
  static void expect_same_switches(const recording& was, const recording& is) {
    ASSERT_EQ(was.end.switches.size(), is.end.switches.size());
    const recorded_incarnations incarnations(was);
    for (std::size_t i = 0; i < was.end.switches.size(); ++i) {
      const recorded_switch &before = was.end.switches[i], &now = is.end.switches[i];
      EXPECT_EQ(before.policy, now.policy);
      EXPECT_EQ(before.present, now.present);
      for (std::size_t r = 0; r < incarnations.ranks(); ++r)
        EXPECT_EQ(incarnations.batches_before(before, i, r), now.batches[r]) << "of worker " << r;
    }
  }

  void expect_same_weights(assembly a, const finished_run& was, std::uint64_t seed) {
    ASSERT_NO_THROW(require_repeatable(was.order));
    ASSERT_NO_THROW(require_replay_ends(was.order, testing::terms_of(a)));
    a.replayed = std::make_shared<const recording>(was.order);
    for (std::uint64_t i = 1; i <= 2; ++i) {
      const auto again = finish(a, seed * 1000 + i);
      ASSERT_TRUE(again);
      EXPECT_EQ(again->report.ended, "completed") << again->report.why;
      EXPECT_TRUE(again->report.ledger.balances()) << to_string(again->report.ledger);
      ASSERT_EQ(was.weights.size(), again->weights.size());
      ASSERT_EQ(0,
                std::memcmp(was.weights.data(), again->weights.data(), was.weights.size() * sizeof(float)));
      for (std::size_t s = 0; s < was.outcome.shards.size(); ++s)
        EXPECT_EQ(was.outcome.shards[s].version, again->outcome.shards[s].version);
      EXPECT_EQ(was.order.batches, again->order.batches);
      expect_same_switches(was.order, again->order);
    }
  }

  /// Returns how many of the runs were repeated, and in how many of them an incarnation was lost or came.
  std::pair<std::size_t, std::size_t> repeat_all(const assembly& a, bool switches) {
    const std::size_t length = length_of(a);
    std::size_t repeated = 0, changed = 0;
    for (drawn_order& order : drawn_orders(orders)) {
      SCOPED_TRACE(order.seed());
      const auto was = disturbed(a, order, length, switches);
      if (!was) ADD_FAILURE() << "somebody waits";
      if (!was || was->report.ended == "failed") continue; // all were lost
      expect_same_weights(a, *was, order.seed());
      if (HasFatalFailure()) return {repeated, changed};
      ++repeated;
      changed += recorded_incarnations(was->order).any_change() ? 1U : 0U;
    }
    return {repeated, changed};
  }
};

class ReplayedLossesOfAPolicy : public ReplayedLosses,
                                public ::testing::WithParamInterface<std::tuple<const char*, std::uint32_t>> {
};

TEST_P(ReplayedLossesOfAPolicy, ComeToTheSameWeightsInAnyOrder) {
  const auto [policy, shards] = GetParam();
  const auto [repeated, changed] = repeat_all(with_slots(policy, shards), false);
  if (!many_orders) return;
  EXPECT_GT(repeated, orders / 2);
  EXPECT_GT(changed, orders / 3);
}

TEST_P(ReplayedLossesOfAPolicy, ComeToTheSameWeightsThroughSwitches) {
  const auto [policy, shards] = GetParam();
  const auto [repeated, changed] = repeat_all(with_slots(policy, shards), true);
  if (!many_orders) return;
  EXPECT_GT(repeated, orders / 2);
  EXPECT_GT(changed, orders / 4);
}

/// One more actor between workers and shards brings a gradient after the news that its worker is lost.
TEST_P(ReplayedLossesOfAPolicy, LeaveOutWhatCameTooLate) {
  const auto [policy, shards] = GetParam();
  assembly a = with_slots(policy, shards);
  a.overhear = true;
  const auto [repeated, changed] = repeat_all(a, true);
  if (!many_orders) return;
  EXPECT_GT(repeated, orders / 2);
  EXPECT_GT(changed, orders / 4);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, ReplayedLossesOfAPolicy,
                         ::testing::Combine(::testing::ValuesIn(testing::ordered_policies),
                                            ::testing::Values(1U, 3U)),
                         [](const auto& run) {
                           return testing::test_name(std::get<0>(run.param)) + "On" +
                                  std::to_string(std::get<1>(run.param));
                         });

TEST_F(ReplayedLosses, ComeToTheSameWeightsWithEveryCureAndLocalSteps) {
  for (const testing::treated_run& t : testing::treated_runs) {
    SCOPED_TRACE(t.cure);
    assembly a = testing::treated(t);
    a.slots = slots;
    for (const bool switches : {false, true}) {
      const auto [repeated, changed] = repeat_all(a, switches);
      if (HasFatalFailure()) return;
      EXPECT_TRUE(repeated > orders / 2 || !many_orders);
      EXPECT_TRUE(changed > orders / 4 || !many_orders);
    }
  }
}

/// A worker that hears that the data are exhausted takes the step that it holds, and pushes once more. A
/// switch may come before that or after it.
TEST_F(ReplayedLosses, ComeToTheSameWeightsWhereAHeldStepWasTakenBeforeASwitch) {
  assembly a = testing::treated({"easgd", "sgd", 1});
  a.workers = 2;
  a.batches = 5;
  const std::size_t length = length_of(a);
  for (const bool loses : {false, true})
    for (std::size_t moment = length / 3; moment < length; ++moment) {
      SCOPED_TRACE(moment);
      drawn_order order(0);
      const auto was = finish(a, order, [&](assembled_run& run) {
        deliver(order, length / 3);
        if (loses) kill(run.devices[1]);
        deliver(order, moment - length / 3);
        send_anonymously(run.coordinator_actor, request_switch{"sync", "by hand"});
      });
      ASSERT_TRUE(was);
      expect_same_weights(a, *was, moment);
      if (HasFatalFailure()) return;
    }
}

} // namespace
} // namespace mailgrad
