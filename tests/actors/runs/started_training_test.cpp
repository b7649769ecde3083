#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/record/recording.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

// Runs that begin with weights that another run has trained.

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::options_for;
using testing::small_data;
using testing::small_model;

class StartedTraining : public ::testing::Test {
protected:
  /// Weights that are not those that any seed draws.
  std::shared_ptr<const saved_weights> trained_weights() {
    training run(small_model(), small_data(), options_for("async", 1));
    const training_report r = run.report();
    save_weights(path_, run.weights(), card_for("small", *small_data()), to_json(r));
    return std::make_shared<const saved_weights>(load_weights(path_));
  }

  const scratch_folder folder_;
  const std::filesystem::path path_ = folder_.path() / "small.safetensors";
};

/// With a learning rate that changes no weight, a run ends with what it began with.
TEST_F(StartedTraining, BeginsWithTheGivenWeightsUnderEveryPolicy) {
  const auto start = trained_weights();
  const auto ended_with = [&](training_options o) {
    o.start = start;
    o.optimizer.learning_rate = 1e-30;
    o.steps = 4;
    training run(small_model(), small_data(), o);
    EXPECT_EQ(run.report().ended, "completed");
    std::vector<float> all;
    for (const named_weights& w : run.weights()) all.insert(all.end(), w.values.begin(), w.values.end());
    return all;
  };
  std::vector<float> expected;
  for (const saved_weights::variable& v : start->variables)
    expected.insert(expected.end(), v.values.values().begin(), v.values.values().end());
  for (const char* policy : {"async", "sync", "hogwild", "hogwild, sync@2"})
    for (const std::uint32_t shards : {1U, 3U}) {
      training_options o = options_for(policy, 2, "sgd");
      o.shards = shards;
      EXPECT_EQ(ended_with(o), expected) << policy << " with " << shards << " shards";
    }
  training_options local = options_for("async", 2, "sgd");
  local.local_steps = 2;
  const std::vector<float> found = ended_with(local);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-6) << "differences are rounded";
}

TEST_F(StartedTraining, LearnsOnFromWhereTheOtherRunEnded) {
  const auto start = trained_weights();
  training_options o = options_for("async", 1);
  o.steps = 6;
  const double from_scratch = testing::trained(o).final_loss.value();
  o.start = start;
  EXPECT_LT(testing::trained(o).final_loss.value(), 0.8 * from_scratch);
}

TEST_F(StartedTraining, RefusesWeightsOfAnotherModelUnlessTheyNeedNotFit) {
  auto other = std::make_shared<saved_weights>();
  other->file = "other.safetensors";
  other->variables.push_back({"dense1/weights", tensor({4, 9})});
  tensor bias({8});
  std::ranges::fill(bias.values(), 0.5F);
  other->variables.push_back({"dense1/bias", std::move(bias)});
  training_options o = options_for("sync", 1, "sgd");
  o.optimizer.learning_rate = 1e-30;
  o.steps = 1;
  o.start = other;
  expect_refused({{"as a whole", [&] { training(small_model(), small_data(), o); },
                   "weights of 'other.safetensors': variable 'dense1/weights' is 4x9 in the file, and 4x8 in "
                   "the model; 2 more differences"}});
  o.start_whole = false;
  training run(small_model(), small_data(), o);
  run.report();
  const std::vector<named_weights> all = run.weights();
  EXPECT_THAT(std::ranges::find(all, "dense1/bias", &named_weights::name)->values, ::testing::Each(0.5F));
}

TEST_F(StartedTraining, IsReplayedOnlyWithTheSameWeights) {
  training_options o = options_for("async", 2);
  o.start = trained_weights();
  o.record = (folder_.path() / "run.rec").string();
  const std::string sum = testing::trained(o).parameters_sha256;
  training_options again = options_for("async", 2);
  again.replay = std::make_shared<const recording>(read_recording(o.record));
  expect_refused({{"drawn weights", [&] { training(small_model(), small_data(), again); },
                   "and is drawn by the seed here"}});
  again.start = o.start;
  EXPECT_EQ(testing::trained(again).parameters_sha256, sum);
}

} // namespace
} // namespace mailgrad
