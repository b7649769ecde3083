#include <mailgrad/tests/actors/runs/endless_training.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/files/digests.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>

// The weights of a run that did best in its tests.

namespace mailgrad {
namespace {

using testing::endless;
using testing::options_for;
using testing::small_data;
using testing::small_model;
using testing::trained;
using testing::with_validation;

/// With a rate so high that the loss goes up and down, one of many tests did best, and hardly ever the last.
TEST(BestWeightsOfRuns, AreThoseOfTheReportAndOfTheProgram) {
  for (const char* policy : {"sync", "async", "hogwild"}) {
    const auto data = with_validation();
    training_options o = endless(policy);
    o.shards = 2;
    o.optimizer = parse_optimizer("momentum");
    o.optimizer.learning_rate = 0.5;
    o.evaluate_every = {.steps = 1};
    o.keep = kept_weights::best;
    training run(small_model(), data, o);
    double lowest = std::numeric_limits<double>::infinity();
    int tests = 0;
    run.observe([&](const run_event& e) {
      const auto* x = std::get_if<evaluation_made>(&e);
      if (!x) return;
      lowest = std::min(lowest, x->loss);
      if (++tests == 10) run.stop("tested enough");
    });
    const training_report r = run.report();
    for (const auto& line : r.curve) // of which the first may be older than the observer
      lowest = std::min(lowest, line.validation_loss.value_or(lowest));
    const std::string kept = sha256(std::as_bytes(run.parameters()));
    if (r.best) {
      EXPECT_EQ(r.best->loss, lowest) << policy;
      EXPECT_TRUE(r.best->held_out) << policy;
      EXPECT_EQ(r.validation_loss, r.best->loss) << policy << ": the report tests these weights";
      EXPECT_EQ(kept, r.best->weights_sha256) << policy;
    } else {
      EXPECT_LE(r.validation_loss.value(), lowest) << policy << ": the last ones did as well, or better";
      EXPECT_EQ(kept, r.parameters_sha256) << policy;
    }
  }
}

TEST(BestWeightsOfRuns, MayBeTheLastOnes) {
  training_options o = options_for("sync", 2);
  o.evaluate_every = {.steps = 1};
  o.keep = kept_weights::best;
  o.epochs = 2;
  training run(small_model(), small_data(), o);
  const training_report r = run.report();
  const double last = r.test_loss.value();
  if (r.best) {
    EXPECT_EQ(r.best->loss, last);
  } else {
    EXPECT_EQ(sha256(std::as_bytes(run.parameters())), r.parameters_sha256);
  }
}

TEST(BestWeightsOfRuns, AreChosenWhereTheLastCannotBeTested) {
  training_options o = endless("sync");
  o.evaluate_every = {.steps = 1};
  o.keep = kept_weights::best;
  training run(small_model(), with_validation(), o);
  run.observe([&](const run_event& e) {
    if (std::holds_alternative<evaluation_made>(e)) run.stop("tested enough");
  });
  int asked = 0;
  const training_report r = run.report([&]() -> bool {
    if (++asked == 1) throw std::runtime_error("no memory");
    return false;
  });
  ASSERT_TRUE(r.best);
  EXPECT_EQ(r.validation_loss, r.best->loss);
  EXPECT_EQ(r.best->why_last_untested, "no memory");
  EXPECT_EQ(r.why, "tested enough");
  EXPECT_EQ(r.ended, "stopped");
}

TEST(BestWeightsOfRuns, SurviveADivergence) {
  training_options o = endless("async");
  o.optimizer = parse_optimizer("sgd");
  o.optimizer.learning_rate = 0.05;
  o.optimizer.schedule = parse_schedule("step:every=20000,factor=1e30");
  o.evaluate_every = {.steps = 1};
  o.keep = kept_weights::best;
  const training_report r = trained(o);
  EXPECT_EQ(r.ended, "diverged");
  if (!r.best) GTEST_SKIP() << "no test ended before the run did";
  EXPECT_EQ(r.test_loss, r.best->loss);
}

TEST(BestWeightsOfRuns, DoNotChangeWhatIsTrainedNorItsReplay) {
  const scratch_folder folder;
  const auto data = with_validation();
  training_options o = endless("async");
  o.record = (folder.path() / "run.rec").string();
  o.evaluate_every = {.steps = 5};
  o.metrics_every = {.steps = 1};
  o.keep = kept_weights::best;
  o.patience = 1'000;
  o.stop_when = "steps>=40";
  const training_report r = trained(o, data);
  EXPECT_TRUE(r.enough);
  o.replay = std::make_shared<const recording>(read_recording(o.record));
  o.record.clear();
  const training_report again = trained(o, data);
  EXPECT_EQ(again.parameters_sha256, r.parameters_sha256);
  EXPECT_EQ(again.steps, r.steps) << "a replay ends where the recording does";
  EXPECT_FALSE(again.best);
}

TEST(BestWeightsOfRuns, NeedTests) {
  training_options o = options_for("async", 1);
  o.keep = kept_weights::best;
  EXPECT_THROW(training(small_model(), small_data(), o), std::invalid_argument);
  o.keep = kept_weights::last;
  o.patience = 1;
  EXPECT_THROW(training(small_model(), small_data(), o), std::invalid_argument);
  o.patience = 0;
  o.stop_when = "accuracy>0.5";
  EXPECT_THROW(training(small_model(), small_data(), o), std::invalid_argument);
  o.evaluate_every = {.epochs = 1};
  for (const char* unknown : {"rmse<0.5", "test_rmse<0.5", "loss<0, rmse>1"}) {
    o.stop_when = unknown;
    EXPECT_THROW(training(small_model(), small_data(), o), std::invalid_argument) << "it predicts classes";
  }
  o.stop_when = "lost<3";
  EXPECT_THROW(training(small_model(), small_data(), o), std::invalid_argument);
}

} // namespace
} // namespace mailgrad
