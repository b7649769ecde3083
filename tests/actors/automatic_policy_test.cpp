#include <mailgrad/tests/actors/assembled_run.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run_books.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

// A run that switches by a rule: from the notices of workers to the switch and its reason.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SignalsOfTheTracker : public testing::DeterministicTest {
protected:
  void notice(std::uint64_t steps, double loss_sum, instant span, instant barrier) {
    tell(tracker_, worker_progress{{0}, steps, steps, loss_sum, span.count(), barrier.count()});
  }
  caf::actor tracker_ = start<staleness_tracker>(staleness_tracker_options{time_, {}});
};

TEST_F(SignalsOfTheTracker, ComeOncePerWindowToWhomeverWatches) {
  notice(50, 50, 1s, 0s);
  auto watcher = ask<signals_observed>(tracker_, watch_signals{100});
  notice(60, 60, 1s, 250ms);
  EXPECT_THAT(watcher.heard<signals_observed>(), IsEmpty());
  staleness_histogram gaps;
  gaps.count(2, 10);
  tell(tracker_, staleness_observed{gaps});
  notice(60, 0, 1s, 750ms);
  ASSERT_THAT(watcher.heard<signals_observed>(), SizeIs(1));
  const run_signals s = watcher.heard<signals_observed>()[0].what;
  EXPECT_EQ(s.steps, 120U);
  EXPECT_DOUBLE_EQ(s.loss, 0.5);
  EXPECT_DOUBLE_EQ(s.staleness, 2);
  EXPECT_DOUBLE_EQ(s.barrier_share, 0.5);
  notice(100, 100, 1s, 0s);
  ASSERT_THAT(watcher.heard<signals_observed>(), SizeIs(2));
  EXPECT_DOUBLE_EQ(watcher.heard<signals_observed>()[1].what.barrier_share, 0) << "a new window";
}

// Workers in step whose messages come in any order wait for each other, as the virtual clock has it.
TEST(AutomaticPolicy, LeavesTheBarrierAndSaysWhy) {
  testing::deterministic_system system;
  const auto time = std::make_shared<testing::manual_time>();
  testing::assembly a;
  a.policy = "auto";
  a.batches = 900;
  std::mt19937_64 random(1);
  const testing::assembled_run run(system.actors(), a, testing::small_data(), time);
  while (system.step_any(random)) time->advance(instant{10ms});
  ASSERT_EQ(run.times_ended(), 1U);
  EXPECT_EQ(run.outcome().how, run_outcome::ending::completed);
  const training_report r = report_of(run.outcome());
  EXPECT_EQ(r.ledger.produced, 900U);
  EXPECT_TRUE(r.ledger.balances());
  ASSERT_FALSE(r.switches.empty());
  EXPECT_EQ(r.switches[0].from, "sync");
  EXPECT_EQ(r.switches[0].to, "async");
  EXPECT_THAT(r.switches[0].why, HasSubstr("at the barrier, more than 10 %"));
  EXPECT_GE(r.switches[0].step, 300U);
  EXPECT_GT(r.ledger.merged, 0U);
  EXPECT_GT(r.ledger.applied, 0U);
}

} // namespace
} // namespace mailgrad
