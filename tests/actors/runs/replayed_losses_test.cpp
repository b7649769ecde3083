#include <mailgrad/engine/record/recorded_incarnations.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>

#include <tuple>

// A replay of a run whose workers were lost and came back has the same weights, though nobody is lost in it.

namespace mailgrad::testing {
namespace {

using messaging::kill, messaging::send_anonymously;

constexpr std::uint64_t orders = 60;
constexpr std::uint32_t slots = 5;
const bool many_orders = drawn_orders(orders).count() == orders;

class ReplayedLosses : public RecordedRun {
protected:
  /// Runs and records `a` while workers come and go. `switches`: the policy switches, too.
  finished_run disturbed(const assembly& a, drawn_order& order, std::size_t length, bool switches) {
    return finish(a, order, [&](assembled_run& run) {
      comings_and_goings workers(run, order, slots);
      for (std::uint64_t i = 1 + order.below(6); i > 0; --i) {
        deliver(order, order.below(length / 3));
        if (switches && order.below(3) == 0)
          send_anonymously(run.coordinator_actor,
                           request_switch{order.below(2) == 0 ? "ssp:1" : "sync", "by hand"});
        else
          workers.one();
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

  void expect_same_weights(const assembly& a, const finished_run& was, std::uint64_t seed) {
    const assembly replay = checked_replay_of(a, was.order);
    for (std::uint64_t i = 1; i <= 2; ++i) {
      const finished_run again = finish(replay, seed * 1000 + i);
      EXPECT_EQ(again.report.ended, "completed") << again.report.why;
      EXPECT_TRUE(again.report.ledger.balances()) << to_string(again.report.ledger);
      ASSERT_NO_FATAL_FAILURE(expect_same_bits(was.weights, again.weights));
      for (std::size_t s = 0; s < was.outcome.shards.size(); ++s)
        EXPECT_EQ(was.outcome.shards[s].version, again.outcome.shards[s].version);
      EXPECT_EQ(was.order.batches, again.order.batches);
      expect_same_switches(was.order, again.order);
    }
  }
  /// Repeats runs in which workers come and go. Expects half of them to be repeated, and one in `part` to
  /// have lost or got an incarnation.
  void expect_all_repeated(const assembly& a, bool switches, std::size_t part) {
    const std::size_t length = length_of(a);
    std::size_t repeated = 0, changed = 0;
    for (drawn_order& order : drawn_orders(orders)) {
      const finished_run was = disturbed(a, order, length, switches);
      if (was.report.ended == "failed") continue; // all were lost
      expect_same_weights(a, was, order.seed());
      if (HasFatalFailure()) return;
      ++repeated;
      changed += recorded_incarnations(was.order).any_change() ? 1U : 0U;
    }
    if (!many_orders) return;
    EXPECT_GT(repeated, orders / 2);
    EXPECT_GT(changed, orders / part);
  }
};

class ReplayedLossesOfAPolicy : public ReplayedLosses,
                                public ::testing::WithParamInterface<policy_on_shards> {
protected:
  static assembly with_slots() {
    const auto& [policy, shards] = GetParam();
    return {.policy = policy, .slots = slots, .shards = shards, .batches = 14};
  }
};

TEST_P(ReplayedLossesOfAPolicy, ComeToTheSameWeightsInAnyOrder) {
  expect_all_repeated(with_slots(), false, 3);
}

TEST_P(ReplayedLossesOfAPolicy, ComeToTheSameWeightsThroughSwitches) {
  expect_all_repeated(with_slots(), true, 4);
}

/// One more actor between workers and shards brings a gradient after the news that its worker is lost.
TEST_P(ReplayedLossesOfAPolicy, LeaveOutWhatCameTooLate) {
  assembly a = with_slots();
  a.overhear = true;
  expect_all_repeated(a, true, 4);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, ReplayedLossesOfAPolicy,
                         ::testing::Combine(::testing::ValuesIn(ordered_policies), ::testing::Values(1U, 3U)),
                         name_on_shards);

TEST_F(ReplayedLosses, ComeToTheSameWeightsWithEveryCureAndLocalSteps) {
  for (const treated_run& t : treated_runs) {
    SCOPED_TRACE(t.cure);
    assembly a = treated(t);
    a.slots = slots;
    for (const bool switches : {false, true}) ASSERT_NO_FATAL_FAILURE(expect_all_repeated(a, switches, 4));
  }
}

/// A worker that hears that the data are exhausted takes the step that it holds, and pushes once more. A
/// switch may come before that or after it.
TEST_F(ReplayedLosses, ComeToTheSameWeightsWhereAHeldStepWasTakenBeforeASwitch) {
  assembly a = treated({"easgd", "sgd", 1});
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
      expect_same_weights(a, was, moment);
      if (HasFatalFailure()) return;
    }
}

} // namespace
} // namespace mailgrad::testing
