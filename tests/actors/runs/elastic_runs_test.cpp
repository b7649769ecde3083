#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/ordered_policies.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

// Whole runs whose workers come and go at any time, under every policy, in thousands of orders of delivery
// each: whatever must hold in any of them is checked in all.

namespace mailgrad {
using messaging::kill, messaging::send_anonymously;

namespace {

using namespace std::chrono_literals;
using testing::assembled_run;
using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using testing::expect_balanced;
using testing::judged_by;

constexpr std::uint64_t orders = 300; // for each test of every policy
constexpr std::uint32_t slots = 5;
constexpr std::uint64_t batches = 12;

/// What becomes of the slots of a run, as the test has it.
class comings_and_goings {
public:
  comings_and_goings(assembled_run& run, drawn_order& order) : run_(run), order_(order) {}

  /// One draws what happens: a worker joins, comes back, leaves or is killed.
  void one() {
    const auto r = static_cast<std::uint32_t>(order_.below(slots));
    const std::uint64_t what = order_.below(4);
    const bool never_came = r >= run_.devices.size() || !run_.devices[r];
    if (never_came || what == 0) return come(r, never_came ? 0 : 1);
    if (what == 1) return send_anonymously(run_.devices[r], leave_run{});
    kill(run_.devices[r]);
  }
  /// Also in place of an incarnation that is still there, and has not been missed.
  void come(std::uint32_t r, std::uint32_t later) { run_.add_worker(r, incarnations_[r] += later); }

private:
  assembled_run& run_;
  drawn_order& order_;
  std::vector<std::uint32_t> incarnations_ = std::vector<std::uint32_t>(slots);
};

class ElasticRuns : public testing::DrawnRuns,
                    public ::testing::WithParamInterface<std::tuple<const char*, std::uint32_t>> {
protected:
  static assembly with_slots() {
    assembly a;
    a.policy = std::get<0>(GetParam());
    a.shards = std::get<1>(GetParam());
    a.slots = slots;
    a.batches = batches;
    return a;
  }
  std::size_t length_of_a_run() {
    drawn_order order(0);
    const assembled_run run = assemble(with_slots());
    return deliver(order);
  }
};

TEST_P(ElasticRuns, JudgeEachBatchOnceOnEveryShardWhoeverComesAndGoes) {
  const std::size_t length = length_of_a_run();
  std::uint64_t whole = 0;
  std::uint64_t lost = 0;
  for (drawn_order& order : drawn_orders(orders)) {
    assembled_run run = assemble(with_slots());
    comings_and_goings events(run, order);
    for (std::uint64_t i = 1 + order.below(6); i > 0; --i) {
      deliver(order, order.below(length / 3));
      events.one();
    }
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U) << "somebody waits for somebody who is gone";
    const run_outcome& outcome = run.outcome();
    expect_balanced(run);
    if (outcome.how != run_outcome::ending::completed) continue; // all are lost, or have left
    ++whole;
    lost += static_cast<std::uint64_t>(std::ranges::count(outcome.lost, true));
    for (const shard_report& s : outcome.shards) ASSERT_EQ(judged_by(s) + outcome.untrained, batches);
    EXPECT_EQ(audit(outcome, {}).ledger.produced - audit(outcome, {}).ledger.lost + outcome.untrained,
              batches)
        << to_string(audit(outcome, {}).ledger);
    EXPECT_EQ(report_of(outcome).samples, (batches - outcome.untrained) * assembly{}.batch);
  }
  EXPECT_GT(whole, drawn_orders(orders).count() / 2);
  EXPECT_GT(lost, drawn_orders(orders).count() / 8);
}

/// One more actor between workers and shards brings a gradient after the news that its worker is lost.
TEST_P(ElasticRuns, JudgeNoBatchTwiceThoughMessagesComeLate) {
  const std::size_t length = length_of_a_run();
  assembly a = with_slots();
  a.overhear = true;
  std::uint64_t whole = 0;
  for (drawn_order& order : drawn_orders(orders)) {
    assembled_run run = assemble(a);
    comings_and_goings events(run, order);
    for (std::uint64_t i = 1 + order.below(6); i > 0; --i) {
      deliver(order, order.below(length / 2));
      events.one();
    }
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U) << "somebody waits for somebody who is gone";
    const run_outcome& outcome = run.outcome();
    expect_balanced(run);
    if (outcome.how != run_outcome::ending::completed) continue;
    ++whole;
    std::uint64_t most = 0;
    for (const shard_report& s : outcome.shards) {
      ASSERT_LE(judged_by(s), batches);
      most = std::max(most, judged_by(s));
    }
    if (a.shards == 1) {
      ASSERT_EQ(most + outcome.untrained, batches);
    }
  }
  EXPECT_GT(whole, drawn_orders(orders).count() / 2);
}

TEST_P(ElasticRuns, WaitForAWorkerAndTrainEveryBatch) {
  const std::size_t length = length_of_a_run();
  assembly a = with_slots();
  a.waits_for_workers = 1h;
  std::uint64_t waited = 0;
  for (drawn_order& order : drawn_orders(orders)) {
    assembled_run run = assemble(a);
    deliver(order, order.below(length));
    for (std::uint32_t r = 0; r < 3; ++r)
      if (order.below(8) != 0) kill(run.devices[r]);
    deliver(order);
    for (std::uint32_t incarnation = 1; run.times_ended() == 0 && incarnation < 4; ++incarnation) {
      ++waited;
      run.add_worker(static_cast<std::uint32_t>(order.below(3)), incarnation);
      if (incarnation < 3 && order.below(2) == 0) {
        deliver(order, order.below(length / 4));
        for (const caf::actor& d : run.devices) kill(d);
      }
      deliver(order);
    }
    ASSERT_EQ(run.times_ended(), 1U);
    expect_balanced(run);
    ASSERT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
    EXPECT_EQ(run.outcome().untrained, 0U);
    for (const shard_report& s : run.outcome().shards) ASSERT_EQ(judged_by(s), batches);
  }
  EXPECT_GT(waited, drawn_orders(orders).count() / 4);
}

TEST_P(ElasticRuns, TakeSwitchesCheckpointsAndStopsWhoeverComesAndGoes) {
  const std::size_t length = length_of_a_run();
  std::uint64_t whole = 0;
  for (drawn_order& order : drawn_orders(orders)) {
    assembled_run run = assemble(with_slots());
    comings_and_goings events(run, order);
    for (std::uint64_t i = 2 + order.below(6); i > 0; --i) {
      deliver(order, order.below(length / 3));
      const std::uint64_t what = order.below(8);
      if (what == 0)
        send_anonymously(run.coordinator_actor, request_switch{"ssp:1", "by hand"});
      else if (what == 1)
        send_anonymously(run.coordinator_actor, request_switch{"sync", "by hand"});
      else if (what == 2 && order.below(4) == 0)
        send_anonymously(run.coordinator_actor, stop_training{"enough"});
      else
        events.one();
    }
    deliver(order);
    ASSERT_EQ(run.times_ended(), 1U) << "somebody waits for somebody who is gone";
    expect_balanced(run);
    const run_outcome& outcome = run.outcome();
    if (outcome.how != run_outcome::ending::completed) continue;
    ++whole;
    for (const shard_report& s : outcome.shards) ASSERT_EQ(judged_by(s) + outcome.untrained, batches);
  }
  EXPECT_GT(whole, drawn_orders(orders).count() / 4);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, ElasticRuns,
                         ::testing::Combine(::testing::ValuesIn(testing::ordered_policies),
                                            ::testing::Values(1U, 2U)),
                         [](const auto& run) {
                           return testing::test_name(std::get<0>(run.param)) + "On" +
                                  std::to_string(std::get<1>(run.param));
                         });

} // namespace
} // namespace mailgrad
