#include <mailgrad/tests/actors/runs/endless_training.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

// Runs that end when they have been trained enough, or when a program that observes them says so.

namespace mailgrad {
namespace {

using testing::endless;
using testing::for_ever;
using ::testing::HasSubstr;
using testing::options_for;
using testing::small_data;
using testing::small_model;
using testing::trained;
using testing::with_validation;

TEST(EarlyStopOfRuns, EndsEveryModeByACondition) {
  for (const char* policy : {"async", "sync", "ssp:1", "k-batch-async:2", "hogwild", "async, hogwild@20"}) {
    training_options o = endless(policy);
    o.metrics_every = {.steps = 1};
    o.stop_when = "steps>=60";
    const training_report r = trained(o);
    EXPECT_EQ(r.ended, "stopped") << policy;
    EXPECT_TRUE(r.enough) << policy;
    EXPECT_THAT(r.why, HasSubstr(", at least 60")) << policy;
    EXPECT_GE(r.steps, 60U) << policy;
    EXPECT_TRUE(r.ledger.balances()) << policy;
    EXPECT_FALSE(r.best) << "nobody asked for the best weights";
  }
}

TEST(EarlyStopOfRuns, IsNoneWhenTheProgramStopsTheRun) {
  training run(small_model(), small_data(), endless("async"));
  run.stop("by hand");
  EXPECT_FALSE(run.report().enough);
}

TEST(EarlyStopOfRuns, LosesPatienceWithARateThatLearnsNothing) {
  training_options o = endless("async");
  o.optimizer.learning_rate = 0;
  o.evaluate_every = {.steps = 10};
  o.patience = 3;
  const training_report r = trained(o, with_validation());
  EXPECT_TRUE(r.enough);
  EXPECT_THAT(r.why, HasSubstr("the validation loss has not fallen in 3 tests"));
  EXPECT_GE(r.evaluations.count, 4U);
}

TEST(EarlyStopOfRuns, TestsOnTheSamplesHeldOutAndAtTheEndOnBoth) {
  const auto data = with_validation();
  training_options o = endless("sync");
  o.metrics_every = {.span = std::chrono::hours{1}};
  o.evaluate_every = {.steps = 10};
  o.stop_when = "accuracy>=0";
  training run(small_model(), data, o);
  const training_report r = run.report();
  ASSERT_GE(r.curve.size(), 2U);
  EXPECT_TRUE(r.curve[0].validation_loss);
  EXPECT_FALSE(r.curve[0].test_loss) << "the test samples stay unseen";
  EXPECT_EQ(r.curve.back().validation_accuracy, r.validation_accuracy);
  EXPECT_EQ(r.curve.back().test_accuracy, r.test_accuracy);
  ASSERT_TRUE(r.validation_loss && r.test_loss);
  EXPECT_NE(*r.validation_loss, *r.test_loss);
  EXPECT_LE(r.samples, r.steps * o.batch);
}

/// Nothing is learned, so each test but the first is in vain, and each is of the same loss wherever it comes.
TEST(EarlyStopOfRuns, GoesOnCountingWhenTheRunIsResumed) {
  const scratch_folder folder;
  const auto data = with_validation();
  training_options o = options_for("async", 1);
  o.epochs = for_ever;
  o.optimizer.learning_rate = 0;
  o.evaluate_every = {.steps = 5};
  o.patience = 1'000'000;
  o.checkpoints.folder = folder.path().string();
  {
    training run(small_model(), data, o);
    int tests = 0;
    run.observe([&](const run_event& e) {
      if (std::holds_alternative<evaluation_made>(e) && ++tests == 4) run.stop("interrupted");
    });
    ASSERT_EQ(run.report().why, "interrupted");
  }
  o.resume = std::make_shared<const checkpoint>(newest_checkpoint(folder.path()).what);
  const auto kept = o.resume->object<judged_tests>(judged_tests_part);
  EXPECT_GE(kept.worse, 2U);
  o.patience = kept.worse + 5;
  const training_report second = trained(o, data);
  EXPECT_TRUE(second.enough);
  EXPECT_THAT(second.why,
              ::testing::AllOf(::testing::HasSubstr("in " + std::to_string(o.patience) + " tests"),
                               ::testing::HasSubstr(std::to_string(kept.lowest_at) + " steps")));
  EXPECT_EQ(second.evaluations.count, 5U) << "none comes after the one that ends the run";
}

TEST(ObservedRuns, MayTakeCheckpointsAndHearOfThem) {
  const scratch_folder folder;
  training_options o = endless("async");
  o.metrics_every = {.steps = 1};
  o.checkpoints.folder = folder.path().string();
  training run(small_model(), small_data(), o);
  bool asked = false;
  std::vector<checkpoint_account> kept;
  run.observe([&](const run_event& e) {
    if (std::holds_alternative<metrics_line>(e) && !asked) {
      asked = true;
      run.take_checkpoint();
    }
    if (const auto* x = std::get_if<checkpoint_account>(&e)) {
      kept.push_back(*x);
      run.stop("kept");
    }
  });
  EXPECT_EQ(run.report().why, "kept");
  ASSERT_FALSE(kept.empty());
  EXPECT_EQ(kept[0].written, 1U);
}

} // namespace
} // namespace mailgrad
