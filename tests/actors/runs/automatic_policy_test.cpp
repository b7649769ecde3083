#include <mailgrad/tests/actors/runs/drawn_runs.hpp>

#include <mailgrad/actors/run/staleness_tracker.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

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
    tell(tracker_,
         worker_progress{
             {0}, steps, steps, std::bit_cast<std::uint64_t>(loss_sum), span.count(), barrier.count()});
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

class AutomaticPolicy : public testing::DrawnRuns {
protected:
  /// Delivers all messages, slowly enough for workers to report their progress, which they do by the clock.
  void deliver_slowly(testing::drawn_order& order) {
    system_.deliver(order, testing::deterministic_system::endless, [&] { time_->advance(instant{10ms}); });
  }
};

// Workers in step whose messages come in any order wait for each other, as the virtual clock has it.
TEST_F(AutomaticPolicy, LeavesTheBarrierAndSaysWhy) {
  testing::assembly a;
  a.policy = "auto";
  a.batches = 900;
  const testing::assembled_run run = assemble(a);
  testing::drawn_order order(1);
  deliver_slowly(order);
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

/// Labels that have nothing to do with the samples: nobody learns more than to be unsure, so gradients never
/// vanish.
std::shared_ptr<const data_split> noise(std::size_t count) {
  const dataset samples = testing::small_samples(count, 1);
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < count; ++i)
    labels.push_back(static_cast<std::int32_t>(i % testing::small_classes));
  return std::make_shared<data_split>(
      data_split{{samples.features(), std::move(labels), testing::small_classes},
                 testing::small_samples(24, 2),
                 "noise",
                 {}});
}

// A rate that the mean of eight fresh gradients bears, and one gradient after the other, each seven updates
// old, does not.
TEST_F(AutomaticPolicy, GoesBackToTheBarrierWhenStaleGradientsDoHarmAndSaysWhy) {
  testing::assembly a;
  a.policy = "auto";
  a.workers = 8;
  a.batches = 5000;
  a.optimizer = "sgd";
  a.learning_rate = 0.8;
  data_ = noise(480);
  const testing::assembled_run run = assemble(a);
  testing::drawn_order order(1);
  deliver_slowly(order);
  ASSERT_EQ(run.times_ended(), 1U);
  const training_report r = report_of(run.outcome());
  EXPECT_EQ(r.ended, "completed");
  EXPECT_TRUE(r.ledger.balances());
  ASSERT_GE(r.switches.size(), 2U);
  EXPECT_EQ(r.switches[0].to, "async");
  EXPECT_THAT(r.switches[0].why, HasSubstr("at the barrier, more than 10 %"));
  EXPECT_EQ(r.switches[1].from, "async");
  EXPECT_EQ(r.switches[1].to, "sync");
  EXPECT_THAT(r.switches[1].why, HasSubstr("above its best, at a mean staleness of 7.0"));
  EXPECT_GT(r.switches[1].step, r.switches[0].step);
  for (const policy_switch& s : r.switches) EXPECT_THAT(to_json(r), HasSubstr(s.why));
}

} // namespace
} // namespace mailgrad
