#include <mailgrad/data/data_reading.hpp>
#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>

#include <limits>
#include <stdexcept>

namespace mailgrad::testing {
namespace {

using ::testing::AllOf, ::testing::ElementsAre, ::testing::HasSubstr;

std::shared_ptr<const data_split> with_validation() {
  auto data = std::make_shared<data_split>(*small_data());
  hold_out(*data, 0.25, 1);
  return data;
}

/// A run that keeps its best weights, of tests after each so many steps.
training_options keeping_best(training_options o, std::uint64_t steps) {
  o.evaluate_every = {.steps = steps};
  o.keep = kept_weights::best;
  return o;
}

/// Interrupts a run at its fourth test.
void interrupt(const std::shared_ptr<const data_split>& data, const training_options& o) {
  training run(small_model(), data, o);
  stop_at<evaluation_made>(run, 4, "interrupted");
  ASSERT_EQ(run.report().why, "interrupted");
}

/// With a rate so high that the loss goes up and down, one of many tests did best, and hardly ever the last.
TEST(BestWeightsOfRuns, AreThoseOfTheReportAndOfTheProgram) {
  for (const char* policy : {"sync", "async", "hogwild"}) {
    SCOPED_TRACE(policy);
    training run(small_model(), with_validation(),
                 keeping_best(endless(policy, 2, {.rate = 0.5, .shards = 2}), 1));
    double lowest = std::numeric_limits<double>::infinity();
    run.observe([&](const run_event& e) {
      if (const auto* x = std::get_if<evaluation_made>(&e)) lowest = std::min(lowest, x->loss);
    });
    stop_at<evaluation_made>(run, 10, "tested enough");
    const training_report r = run.report();
    for (const auto& line : r.curve) // of which the first may be older than the observer
      lowest = std::min(lowest, line.validation_loss.value_or(lowest));
    const std::string kept = sha256(std::as_bytes(run.parameters()));
    if (r.best) {
      EXPECT_EQ(r.best->loss, lowest);
      EXPECT_TRUE(r.best->held_out);
      EXPECT_EQ(r.validation_loss, r.best->loss) << "the report tests these weights";
      EXPECT_EQ(kept, r.best->weights_sha256);
    } else {
      EXPECT_LE(r.validation_loss.value(), lowest) << "the last ones did as well, or better";
      EXPECT_EQ(kept, r.parameters_sha256);
    }
  }
}

TEST(BestWeightsOfRuns, MayBeTheLastOnes) {
  training run(small_model(), small_data(), keeping_best(options_for("sync", 2, {.epochs = 2}), 1));
  const training_report r = run.report();
  EXPECT_EQ(r.best ? r.best->loss : r.test_loss.value(), r.test_loss);
  EXPECT_TRUE(r.best || sha256(std::as_bytes(run.parameters())) == r.parameters_sha256);
}

TEST(BestWeightsOfRuns, AreChosenWhereTheLastCannotBeTested) {
  training run(small_model(), with_validation(), keeping_best(endless("sync"), 1));
  stop_at<evaluation_made>(run, 1, "tested enough");
  int asked = 0;
  const training_report r = run.report([&]() -> bool {
    if (++asked == 1) throw std::runtime_error("no memory");
    return false;
  });
  EXPECT_EQ(r.validation_loss, r.best.value().loss);
  EXPECT_EQ(r.best->why_last_untested, "no memory");
  EXPECT_EQ(r.why, "tested enough");
  EXPECT_EQ(r.ended, "stopped");
}

TEST(BestWeightsOfRuns, SurviveADivergence) {
  training_options o = keeping_best(endless("async", 2, {.optimizer = "sgd"}), 1);
  o.optimizer.schedule = parse_schedule("step:every=20000,factor=1e30");
  const training_report r = trained(o);
  EXPECT_EQ(r.ended, "diverged");
  if (!r.best) GTEST_SKIP() << "no test ended before the run did";
  EXPECT_EQ(r.test_loss, r.best->loss);
}

TEST(BestWeightsOfRuns, DoNotChangeWhatIsTrainedNorItsReplay) {
  const scratch_folder folder;
  const auto data = with_validation();
  training_options o = keeping_best(
      endless("async", 2, {.metrics_every = {.steps = 1}, .stop_when = "steps>=40", .patience = 1'000}), 5);
  o.record = (folder.path() / "run.rec").string();
  const training_report r = trained(o, data);
  EXPECT_TRUE(r.enough);
  const training_report again = trained(replay_of(o), data);
  EXPECT_EQ(again.parameters_sha256, r.parameters_sha256);
  EXPECT_EQ(again.steps, r.steps) << "a replay ends where the recording does";
  EXPECT_FALSE(again.best);
}

TEST(BestWeightsOfRuns, NeedTests) {
  const auto refused = [](const auto& change) {
    training_options o = options_for("async", 1);
    change(o);
    EXPECT_THROW(training(small_model(), small_data(), o), std::invalid_argument);
  };
  refused([](auto& o) { o.keep = kept_weights::best; });
  refused([](auto& o) { o.patience = 1; });
  refused([](auto& o) { o.stop_when = "accuracy>0.5"; });
  for (const char* unknown :
       {"rmse<0.5", "test_rmse<0.5", "loss<0, rmse>1", "lost<3"}) { // it predicts classes
    SCOPED_TRACE(unknown);
    refused([&](auto& o) {
      o.evaluate_every = {.epochs = 1};
      o.stop_when = unknown;
    });
  }
}

// ---- runs that go on from a checkpoint, and the folder that they go on in

TEST(BestWeightsOfRuns, AreThereAgainWhenTheRunIsResumed) {
  const scratch_folder folder;
  const auto data = with_validation();
  training_options o = keeping_best(options_for("sync", 2), 10);
  o.checkpoints = {.folder = folder.path().string(), .every_steps = 10};
  trained(o, data);
  const double lowest = best_weights_in(folder.path()).best.value().test.loss;
  o.resume = newest_in(folder.path());
  o.epochs = 8;
  EXPECT_LE(trained(o, data).validation_loss.value(), lowest) << "nothing better than before is forgotten";
  o.resume = nullptr;
  EXPECT_THROW(trained(o), std::invalid_argument) << "the folder is in use";
}

/// A run with a checkpoint of its end and of two ends on its way, from which it was made longer.
training_options made_longer_twice(const std::filesystem::path& folder,
                                   const std::shared_ptr<const data_split>& data) {
  training_options o = keeping_best(options_for("sync", 1), 10);
  o.checkpoints.folder = folder.string();
  for (o.epochs = 4; o.epochs <= 12; o.epochs += 4) {
    trained(o, data);
    o.resume = newest_in(folder);
  }
  return o;
}

std::shared_ptr<const checkpoint> oldest_in(const std::filesystem::path& folder) {
  return std::make_shared<const checkpoint>(checkpoint::read(checkpoints_in(folder).back()));
}

/// The best of a run are the best of the history that it stands on, and no others are lost.
TEST(BestWeightsOfRuns, AreNotThoseOfATestAfterTheCheckpoint) {
  const scratch_folder folder;
  const auto data = with_validation();
  training_options o = made_longer_twice(folder.path(), data);
  const std::size_t size = newest_in(folder.path())->part("shard 0")->arrays()[0].values.size();
  best_weights(folder.path()).offer({.steps = 1000, .loss = 0}, std::vector<float>(size));
  o.resume = oldest_in(folder.path());
  training run(small_model(), data, o);
  const training_report r = run.report();
  EXPECT_NE(r.best ? r.best->loss : r.validation_loss.value(), 0) << "no weights of this run did so well";
  ASSERT_EQ(run.remarks().size(), 1U);
  EXPECT_THAT(run.remarks()[0],
              HasSubstr(": 2 later checkpoints and the best weights, which are of a later "));
  const auto aside = folder.path() / ("left-after-" + o.resume->path().stem().string().substr(11));
  EXPECT_EQ(best_weights_in(aside).best->test.loss, 0);
  EXPECT_EQ(checkpoints_in(aside).size(), 2U);
  const auto mine = best_weights_in(folder.path()).best;
  EXPECT_TRUE(!mine || mine->test.loss > 0);
}

/// A resume of the folder goes on with the run that went back, and not with the one that it left.
TEST(ResumedFolders, HoldTheCheckpointsOfOneHistory) {
  const scratch_folder folder;
  training_options o = made_longer_twice(folder.path(), small_data());
  o.resume = oldest_in(folder.path());
  const training run(small_model(), small_data(), o);
  EXPECT_THAT(run.remarks(), ElementsAre(HasSubstr("2 later checkpoints")));
  const auto aside = folder.path() / ("left-after-" + o.resume->path().stem().string().substr(11));
  EXPECT_EQ(checkpoints_in(aside).size(), 2U);
}

/// Another run may replace what lies there while it is read.
TEST(ResumedFolders, AreLockedBeforeTheyAreRead) {
  const scratch_folder folder;
  training_options o = made_longer_twice(folder.path(), small_data());
  folder.write(std::string(best_weights::file_name), "half of it");
  const folder_lock held = prepare_checkpoint_folder(folder.path(), o.resume->path());
  EXPECT_THROW(training(small_model(), small_data(), o), folder_taken);
}

TEST(BestWeightsOfRuns, ThatAreMissingAreSaidToBe) {
  const scratch_folder folder;
  const auto data = with_validation();
  training_options o = keeping_best(endless("async", 2, {.rate = 0}), 5); // so the first test is the best
  o.checkpoints.folder = folder.path().string();
  interrupt(data, o);
  o.resume = newest_in(folder.path());
  EXPECT_THAT(training(small_model(), data, o).remarks(), ::testing::IsEmpty());
  std::filesystem::remove(folder.path() / best_weights::file_name);
  o.resume = newest_in(folder.path());
  EXPECT_THAT(training(small_model(), data, o).remarks(),
              ElementsAre(AllOf(::testing::StartsWith("the weights of the best test so far, of loss "),
                                HasSubstr("are not in " + folder.path().string()),
                                HasSubstr("keeps the best of those that it tests from here on"))));
}

/// Steps of a run with other workers count anew, and those of its checkpoints do not.
TEST(BestWeightsOfRuns, AreOfTheStepsThatCheckpointsCount) {
  const scratch_folder folder;
  const auto data = with_validation();
  training_options o = keeping_best(options_for("async", 2), 10);
  o.checkpoints.folder = folder.path().string();
  trained(o, data);
  o.resume = newest_in(folder.path());
  std::filesystem::remove(folder.path() / best_weights::file_name);
  for (const auto& [steps, file] : earlier_best_files(folder.path())) std::filesystem::remove(file);
  o.devices = cores(1);
  o.epochs *= 2;
  const std::uint64_t before = steps_named_in(folder.path(), o.resume->path());
  trained(o, data);
  const auto best = best_weights_in(folder.path()).best;
  if (!best) GTEST_SKIP() << "no test ended before the run did";
  EXPECT_GT(best->test.steps, before);
}

// ---- runs that end when they have been trained enough, or when a program that observes them says so

TEST(EarlyStopOfRuns, EndsEveryModeByACondition) {
  for (const char* policy : {"async", "sync", "ssp:1", "k-batch-async:2", "hogwild", "async, hogwild@20"}) {
    SCOPED_TRACE(policy);
    const training_report r =
        expect_ended("stopped", HasSubstr(", at least 60"),
                     trained(endless(policy, 2, {.metrics_every = {.steps = 1}, .stop_when = "steps>=60"})));
    EXPECT_TRUE(r.enough);
    EXPECT_GE(r.steps, 60U);
    EXPECT_FALSE(r.best) << "nobody asked for the best weights";
  }
}

TEST(EarlyStopOfRuns, IsNoneWhenTheProgramStopsTheRun) {
  training run(small_model(), small_data(), endless("async"));
  run.stop("by hand");
  EXPECT_FALSE(run.report().enough);
}

TEST(EarlyStopOfRuns, LosesPatienceWithARateThatLearnsNothing) {
  const training_report r = trained(
      endless("async", 2, {.rate = 0, .evaluate_every = {.steps = 10}, .patience = 3}), with_validation());
  EXPECT_TRUE(r.enough);
  EXPECT_THAT(r.why, HasSubstr("the validation loss has not fallen in 3 tests"));
  EXPECT_GE(r.evaluations.count, 4U);
}

TEST(EarlyStopOfRuns, TestsOnTheSamplesHeldOutAndAtTheEndOnBoth) {
  const training_options o = endless("sync", 2,
                                     {.metrics_every = {.span = std::chrono::hours{1}},
                                      .evaluate_every = {.steps = 10},
                                      .stop_when = "accuracy>=0"});
  const training_report r = trained(o, with_validation());
  ASSERT_GE(r.curve.size(), 2U);
  EXPECT_TRUE(r.curve[0].validation_loss);
  EXPECT_FALSE(r.curve[0].test_loss) << "the test samples stay unseen";
  EXPECT_EQ(r.curve.back().validation_accuracy, r.validation_accuracy);
  EXPECT_EQ(r.curve.back().test_accuracy, r.test_accuracy);
  EXPECT_NE(r.validation_loss.value(), r.test_loss.value());
  EXPECT_LE(r.samples, r.steps * o.batch);
}

/// Nothing is learned, so each test but the first is in vain, and each is of the same loss wherever it comes.
TEST(EarlyStopOfRuns, GoesOnCountingWhenTheRunIsResumed) {
  const scratch_folder folder;
  const auto data = with_validation();
  training_options o =
      endless("async", 1, {.rate = 0, .evaluate_every = {.steps = 5}, .patience = 1'000'000});
  o.checkpoints.folder = folder.path().string();
  interrupt(data, o);
  o.resume = newest_in(folder.path());
  const auto kept = o.resume->object<judged_tests>(judged_tests_part);
  EXPECT_GE(kept.worse, 2U);
  o.patience = kept.worse + 5;
  const training_report second = trained(o, data);
  EXPECT_TRUE(second.enough);
  EXPECT_THAT(second.why, AllOf(HasSubstr("in " + std::to_string(o.patience) + " tests"),
                                HasSubstr(std::to_string(kept.lowest_at) + " steps")));
  EXPECT_EQ(second.evaluations.count, 5U) << "none comes after the one that ends the run";
}

TEST(ObservedRuns, MayTakeCheckpointsAndHearOfThem) {
  const scratch_folder folder;
  training_options o = endless("async", 2, {.metrics_every = {.steps = 1}});
  o.checkpoints.folder = folder.path().string();
  training run(small_model(), small_data(), o);
  stop_at<checkpoint_account>(run, 1, "kept");
  bool asked = false;
  std::vector<checkpoint_account> kept;
  run.observe([&](const run_event& e) {
    if (std::holds_alternative<metrics_line>(e) && !std::exchange(asked, true)) run.take_checkpoint();
    if (const auto* x = std::get_if<checkpoint_account>(&e)) kept.push_back(*x);
  });
  EXPECT_EQ(run.report().why, "kept");
  ASSERT_FALSE(kept.empty());
  EXPECT_EQ(kept[0].written, 1U);
}

} // namespace
} // namespace mailgrad::testing
