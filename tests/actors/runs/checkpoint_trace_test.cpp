#include <mailgrad/tests/actors/runs/traced_runs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

// Checkpoints on the timelines of whole runs.

namespace mailgrad {
using messaging::kill, messaging::spawn;

namespace {

using testing::drawn_order;
using testing::drawn_orders;
using ::testing::IsEmpty;
using testing::traced;
using testing::traced_run;
using testing::waits_under;

class CheckpointTrace : public ::testing::TestWithParam<const char*> {};

/// The coordinator does one of both at a time.
TEST_P(CheckpointTrace, ShowsEachCheckpointApartFromSwitches) {
  for (const drawn_order& order : drawn_orders(20)) {
    testing::assembly a = traced(GetParam());
    a.checkpoint_every = 4;
    const traced_run run(a, order);
    const checkpoint_account& account = run.outcome().checkpoints;
    const auto& checkpoints = run.outcome().checkpoint_timeline;
    ASSERT_GE(checkpoints.size(), account.written + account.failed);
    ASSERT_GE(checkpoints.size(), 3U);
    instant collected{0};
    instant ended{0};
    for (std::size_t i = 0; i < checkpoints.size(); ++i) {
      const checkpoint_times& c = checkpoints[i];
      EXPECT_EQ(c.number, i + 1);
      EXPECT_GT(c.begun, collected) << "one at a time";
      EXPECT_GT(c.collected, c.begun);
      EXPECT_GT(c.ended, std::max(c.collected, ended)) << "one at a time";
      EXPECT_EQ(c.what, i % 2 == 0 ? checkpoint_times::fate::written : checkpoint_times::fate::failed);
      EXPECT_EQ(c.failure, i % 2 == 0 ? "" : "the disk is full");
      EXPECT_EQ(c.file, "a file");
      EXPECT_EQ(c.bytes, 1234U);
      for (const policy_switch& s : run.trace.switches)
        EXPECT_TRUE(s.ended <= c.begun || c.collected <= s.begun)
            << "checkpoint " << c.number << ": " << s.to;
      collected = c.collected;
      ended = c.ended;
    }
    EXPECT_EQ(checkpoints.back().steps, a.batches) << "of the end";
  }
}

/// One is due whenever a batch is dealt, and only one is written at a time.
TEST_P(CheckpointTrace, HasNoneOfThoseThatWereSkipped) {
  for (const drawn_order& order : drawn_orders(20)) {
    testing::assembly a = traced(GetParam());
    a.checkpoint_every = 1;
    const traced_run run(a, order);
    const checkpoint_account& account = run.outcome().checkpoints;
    const auto& begun = run.outcome().checkpoint_timeline;
    EXPECT_GT(account.skipped, 0U);
    const std::uint64_t all = begun.size() + account.skipped;
    EXPECT_GT(all, a.batches / 2) << "each is begun or skipped, but for batches dealt before anybody watches";
    EXPECT_LE(all, a.batches + 2) << "two may be of the end";
    std::set<std::uint64_t> steps;
    for (const checkpoint_times& c : begun)
      if (c.what == checkpoint_times::fate::written) steps.insert(c.steps);
    EXPECT_EQ(account.written, steps.size()) << "two after the same step are one file";
  }
}

/// A worker marks the place between two messages and goes on, so it has no wait to name.
TEST_P(CheckpointTrace, HasTheSameWaitsOfWorkersWithCheckpoints) {
  EXPECT_EQ(waits_under(GetParam()), waits_under(GetParam(), 1));
}

/// Under hogwild they stand still, and the trace says so.
TEST(CheckpointTraceOfHogwild, NamesTheWaitsOfWorkers) {
  for (const char* policy : {"hogwild", "async, hogwild@12"}) {
    EXPECT_FALSE(waits_under(policy).contains(trace_kind::checkpoint)) << policy;
    EXPECT_TRUE(waits_under(policy, 1).contains(trace_kind::checkpoint)) << policy;
    testing::assembly a = traced(policy);
    a.checkpoint_every = 4;
    const traced_run run(a, drawn_order(1));
    EXPECT_GT(run.outcome().checkpoints.held_seconds, 0) << policy;
  }
  testing::assembly a = traced("async");
  a.checkpoint_every = 4;
  const traced_run run(a, drawn_order(1));
  EXPECT_EQ(run.outcome().checkpoints.held_seconds, 0);
}

TEST(CheckpointTraceOfHogwild, CountsNoHoldWhenNobodyIsLeftToStandStill) {
  for (const char* policy : {"hogwild", "async, hogwild@12"}) {
    testing::assembly a = traced(policy);
    a.checkpoint_every = 1000; // so that there is that of the end alone
    const traced_run run(a, drawn_order(1));
    EXPECT_EQ(run.outcome().checkpoints.written, 1U) << policy;
    EXPECT_EQ(run.outcome().checkpoints.held_seconds, 0) << policy;
  }
}

INSTANTIATE_TEST_SUITE_P(SeveralPolicies, CheckpointTrace,
                         ::testing::Values("async", "sync", "ssp:1", "backup:1", "rennala:2", "ringmaster:2",
                                           "malenia:4", "ringleader", "async, sync@6, ssp:1@15"),
                         [](const auto& policy) { return testing::test_name(policy.param); });

/// Its parts cannot all come, so it ends on the timeline when that is known.
TEST(TraceOfCheckpoints, EndOneThatIsGivenUp) {
  int given_up = 0;
  for (drawn_order& order : drawn_orders(40)) {
    testing::deterministic_system system;
    testing::assembly a = traced("async");
    a.checkpoint_every = 2;
    a.checkpoint_writer = spawn<testing::failing_writer>(system.actors());
    {
      const testing::assembled_run run(system.actors(), a, testing::small_data(),
                                       std::make_shared<testing::ticking_time>());
      system.deliver(order, 200 + 5 * order.seed(), [] {});
      kill(run.shards[1]);
      system.deliver(order);
      ASSERT_EQ(run.times_ended(), 1U);
      for (const checkpoint_times& c : run.outcome().checkpoint_timeline) {
        EXPECT_GT(c.collected, c.begun);
        if (c.what != checkpoint_times::fate::given_up) continue;
        ++given_up;
        EXPECT_EQ(c.ended, c.collected);
        EXPECT_EQ(&c, &run.outcome().checkpoint_timeline.back()) << "none begins any more";
      }
    }
    kill(a.checkpoint_writer);
  }
  EXPECT_GT(given_up, 0) << "no order lost the shard while a checkpoint was collected";
}

TEST(TraceOfCheckpoints, AreNotRecordedUnlessAskedFor) {
  testing::assembly a = traced("async");
  a.trace_events = 0;
  a.checkpoint_every = 4;
  const traced_run run(a, drawn_order(1));
  EXPECT_THAT(run.trace.checkpoints, IsEmpty());
}

} // namespace
} // namespace mailgrad
