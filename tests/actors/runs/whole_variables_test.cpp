#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

// Whole runs with rules that look at whole variables.

namespace mailgrad {
namespace {

using testing::options_for;
using testing::small_data;
using testing::small_model;
using testing::trained;
using testing::whole_variable_rules;

training_options whole_run(std::string_view rule, const std::string& policy = "async") {
  training_options o = options_for(policy, 2, std::string(rule));
  o.shards = 3;
  return o;
}

TEST(RunOfWholeVariables, LearnsUnderEveryRule) {
  for (const std::string_view rule : whole_variable_rules()) {
    training_options o = whole_run(rule, "sync");
    o.epochs = 40;
    o.optimizer.learning_rate = rule == "lars" ? 30 : 0.05;
    const training_report r = trained(o);
    EXPECT_EQ(r.ended, "completed") << r.why;
    EXPECT_GT(r.test_accuracy.value_or(0), 0.8) << rule;
  }
}

TEST(RunOfWholeVariables, EndsWithTheSameWeightsInAnyNumberOfShards) {
  for (const std::string_view rule : whole_variable_rules()) {
    training_options o = whole_run(rule, "sync");
    const std::string three = trained(o).parameters_sha256;
    o.shards = 1;
    EXPECT_EQ(trained(o).parameters_sha256, three) << rule;
  }
}

TEST(RunOfWholeVariables, IsReplayedBitForBit) {
  for (const std::string_view rule : whole_variable_rules()) {
    const scratch_folder folder;
    training_options o = whole_run(rule, "ssp:2");
    o.cure = "dynsgd";
    o.record = (folder.path() / "run.rec").string();
    const training_report was = trained(o);
    o.replay = std::make_shared<const recording>(read_recording(o.record));
    o.record.clear();
    EXPECT_EQ(trained(o).parameters_sha256, was.parameters_sha256) << rule;
  }
}

TEST(RunOfWholeVariables, GoesOnFromACheckpointAsIfItHadNotEnded) {
  for (const std::string_view rule : whole_variable_rules()) {
    const scratch_folder folder;
    training_options o = whole_run(rule, "sync");
    const std::string whole = trained(o).parameters_sha256;
    o.checkpoints.folder = folder.path().string();
    o.checkpoints.every_steps = 4;
    o.steps = 12;
    trained(o);
    o.resume = std::make_shared<const checkpoint>(newest_checkpoint(folder.path()).what);
    o.checkpoints = {};
    o.steps = 0;
    EXPECT_EQ(trained(o).parameters_sha256, whole) << rule;
  }
}

/// Ours, which notes what it is told of the layout.
class told_of_layout : public parameter_actor {
public:
  static constexpr const char* name = "test.told-of-layout";
  static constexpr bool whole_variables = true;
  static inline std::mutex mutex{}; ///< guards cuts, which the actors of two shards write
  static inline std::vector<std::string> cuts{};

  told_of_layout(caf::event_based_actor* self, parameter_actor_options options)
      : parameter_actor(self, noted(std::move(options))) {}

private:
  static parameter_actor_options noted(parameter_actor_options options) {
    const parameter_layout& layout = *options.layout;
    const std::lock_guard guard(mutex);
    for (std::size_t v = 0; v < layout.variables().size(); ++v)
      for (const variable_piece& p : layout.pieces(v))
        if (p.shard == options.weights->index().value)
          cuts.push_back(layout.variables()[v].name + to_string(layout.variables()[v].dims) + " at " +
                         std::to_string(p.offset_in_shard));
    return options;
  }
};

TEST(CustomParameterActorOfWholeVariables, IsToldNamesShapesAndPlaces) {
  training_options o = options_for("sync", 2);
  o.shards = 2;
  o.parameter_actor = make_custom_parameter_actor<told_of_layout>();
  EXPECT_TRUE(o.parameter_actor->whole_variables);
  EXPECT_EQ(trained(o).ended, "completed");
  std::ranges::sort(told_of_layout::cuts);
  EXPECT_THAT(told_of_layout::cuts, ::testing::SizeIs(4)); // each of four variables in one shard
}

} // namespace
} // namespace mailgrad
