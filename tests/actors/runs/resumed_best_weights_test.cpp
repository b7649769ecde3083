#include <mailgrad/tests/actors/runs/endless_training.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

// The best weights of a run that goes on from a checkpoint, and the folder that it goes on in.

namespace mailgrad {
namespace {

using testing::endless;
using ::testing::HasSubstr;
using testing::newest_in;
using testing::options_for;
using testing::small_data;
using testing::small_model;
using testing::trained;
using testing::with_validation;

TEST(BestWeightsOfRuns, AreThereAgainWhenTheRunIsResumed) {
  const scratch_folder folder;
  const auto data = with_validation();
  training_options o = options_for("sync", 2);
  o.evaluate_every = {.steps = 10};
  o.keep = kept_weights::best;
  o.checkpoints.folder = folder.path().string();
  o.checkpoints.every_steps = 10;
  const training_report first = trained(o, data);
  const auto kept = best_weights_in(folder.path()).best;
  ASSERT_TRUE(kept);
  o.resume = std::make_shared<const checkpoint>(newest_checkpoint(folder.path()).what);
  o.epochs = 8;
  o.optimizer.learning_rate = 0.05;
  const training_report second = trained(o, data);
  EXPECT_LE(second.validation_loss.value(), kept->test.loss) << "nothing better than before is forgotten";
  EXPECT_THROW(trained([&] {
                 training_options anew = o;
                 anew.resume = nullptr;
                 return anew;
               }()),
               std::invalid_argument)
      << "the folder is in use";
}

/// A run with a checkpoint of its end and of two ends on its way, from which it was made longer.
training_options made_longer_twice(const std::filesystem::path& folder,
                                   const std::shared_ptr<const data_split>& data) {
  training_options o = options_for("sync", 1);
  o.evaluate_every = {.steps = 10};
  o.keep = kept_weights::best;
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
  EXPECT_THAT(run.remarks(), ::testing::ElementsAre(HasSubstr("2 later checkpoints")));
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
  training_options o = endless("async");
  o.optimizer.learning_rate = 0; // so the first test is the best
  o.evaluate_every = {.steps = 5};
  o.keep = kept_weights::best;
  o.checkpoints.folder = folder.path().string();
  {
    training run(small_model(), data, o);
    int tests = 0;
    run.observe([&](const run_event& e) {
      if (std::holds_alternative<evaluation_made>(e) && ++tests == 4) run.stop("interrupted");
    });
    ASSERT_EQ(run.report().why, "interrupted");
  }
  o.resume = newest_in(folder.path());
  EXPECT_THAT(training(small_model(), data, o).remarks(), ::testing::IsEmpty());
  std::filesystem::remove(folder.path() / best_weights::file_name);
  o.resume = newest_in(folder.path());
  EXPECT_THAT(training(small_model(), data, o).remarks(),
              ::testing::ElementsAre(
                  ::testing::AllOf(::testing::StartsWith("the weights of the best test so far, of loss "),
                                   HasSubstr("are not in " + folder.path().string()),
                                   HasSubstr("keeps the best of those that it tests from here on"))));
}

/// Steps of a run with other workers count anew, and those of its checkpoints do not.
TEST(BestWeightsOfRuns, AreOfTheStepsThatCheckpointsCount) {
  const scratch_folder folder;
  const auto data = with_validation();
  training_options o = options_for("async", 2);
  o.evaluate_every = {.steps = 10};
  o.keep = kept_weights::best;
  o.checkpoints.folder = folder.path().string();
  trained(o, data);
  o.resume = newest_in(folder.path());
  std::filesystem::remove(folder.path() / best_weights::file_name);
  for (const auto& [steps, file] : earlier_best_files(folder.path())) std::filesystem::remove(file);
  o.devices = testing::cores(1);
  o.epochs *= 2;
  const std::uint64_t before = steps_named_in(folder.path(), o.resume->path());
  trained(o, data);
  const auto best = best_weights_in(folder.path()).best;
  if (!best) GTEST_SKIP() << "no test ended before the run did";
  EXPECT_GT(best->test.steps, before);
}

} // namespace
} // namespace mailgrad
