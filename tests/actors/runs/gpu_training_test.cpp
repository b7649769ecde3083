#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// Whole runs on streams of a GPU, on threads: the simulated GPU, or a real one.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using testing::gpu_options;
using testing::GpuRuns;
using ::testing::HasSubstr;
using testing::options_for;
using testing::small_data;
using testing::small_model;
using ::testing::ThrowsMessage;
using testing::trained;
using testing::weights_of;

class GpuTraining : public ::testing::TestWithParam<const char*> {
protected:
  void SetUp() override { MAILGRAD_NEEDS_GPU(); }
};

TEST_P(GpuTraining, BalancesTheLedgerAndTrainsEveryBatch) {
  for (const bool mixed : {false, true}) {
    training_options o = gpu_options(GetParam(), 2);
    if (mixed) o.devices[1] = {device_kind::cpu, 0};
    o.shards = 2;
    const training_report r = trained(o, small_data(200));
    EXPECT_EQ(r.ended, "completed") << r.why;
    EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
    EXPECT_EQ(r.samples, 800U);
    EXPECT_GT(r.test_accuracy, 0.8);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, GpuTraining,
                         ::testing::Values("async", "sync", "hogwild", "ssp:2", "async, sync@30"),
                         [](const auto& policy) {
                           std::string name = policy.param;
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

TEST_F(GpuRuns, ComeToTheWeightsOfTheProcessorsInSync) {
  const std::vector<float> there = weights_of(gpu_options("sync", 2)),
                           here = weights_of(options_for("sync", 2));
  ASSERT_EQ(there.size(), here.size());
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(there[i], here[i], 1e-5) << i;
}

TEST_F(GpuRuns, OfOneWorkerComeToTheSameBitsTwice) {
  EXPECT_EQ(weights_of(gpu_options("async", 1)), weights_of(gpu_options("async", 1)));
}

TEST_F(GpuRuns, GoOnFromACheckpointToTheSameWeights) {
  const scratch_folder folder;
  training_options o = gpu_options("async", 1);
  const std::vector<float> at_once = weights_of(o);
  o.epochs = 2;
  o.checkpoints = {.folder = folder.path().string(), .every_steps = 5};
  weights_of(o);
  o = gpu_options("async", 1);
  o.resume = std::make_shared<const checkpoint>(newest_checkpoint(folder.path()).what);
  EXPECT_EQ(weights_of(o), at_once);
}

TEST_F(GpuRuns, AreReplayedThereAndRefusedOnCores) {
  const scratch_folder folder;
  training_options o = gpu_options("async", 2);
  o.record = (folder.path() / "run.rec").string();
  const std::vector<float> was = weights_of(o);
  o.replay = std::make_shared<const recording>(read_recording(o.record));
  o.record.clear();
  EXPECT_EQ(weights_of(o), was);
  o.devices = options_for("async", 2).devices;
  EXPECT_THAT([&] { weights_of(o); }, ThrowsMessage<recording_error>(HasSubstr("arithmetic of workers")));
}

TEST_F(GpuRuns, TellHowTheirStepsWereQueued) {
  const training_report r = trained(gpu_options("sync", 2));
  ASSERT_TRUE(r.gpus);
  EXPECT_EQ(r.gpus->graph_steps + r.gpus->launched_steps, r.steps);
  EXPECT_GT(r.gpus->graph_steps, r.gpus->launched_steps);
  EXPECT_FALSE(trained(options_for("sync", 2)).gpus);
}

/// A step of a small model may end before the next batch has come, so not every batch is copied ahead.
TEST_F(GpuRuns, ShowTheCopiesOfTheirBatchesBeforeTheSteps) {
  training_options o = gpu_options("sync", 2);
  o.trace_events = 1000;
  training run(small_model(), small_data(), o);
  run.report();
  const run_trace trace = run.trace();
  std::size_t tracks = 0, copied = 0;
  for (std::size_t i = 1; i < trace.tracks.size(); ++i) {
    const trace_track& copies = *trace.tracks[i];
    if (!copies.name().ends_with(", copies")) continue;
    ++tracks;
    copied += copies.events().size();
    for (const trace_event& step : trace.tracks[i - 1]->events()) {
      if (step.what != trace_kind::compute) continue;
      const auto of = std::ranges::find(copies.events(), step.step, &trace_event::step);
      if (of != copies.events().end()) {
        EXPECT_LE(of->begin, step.begin) << step.step;
      }
    }
  }
  EXPECT_EQ(tracks, 2U);
  EXPECT_GT(copied, 0U);
}

TEST_F(GpuRuns, AreRefusedInOneLineBeforeAnythingRuns) {
  training_options elsewhere = gpu_options("async", 1);
  elsewhere.devices[0].index = 99;
  EXPECT_THAT([&] { trained(elsewhere); },
              ThrowsMessage<device_error>(
                  AllOf(HasSubstr("cuda:99 is not available"), HasSubstr("cpu:0"), HasSubstr("cuda:0"))));
  training_options spanning = gpu_options("async", 2);
  spanning.workers = 1;
  spanning.parameters = {{device_kind::cuda, 0}};
  spanning.optimizer.clip_norm = 1;
  EXPECT_THAT([&] { trained(spanning); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("clipping reads the whole gradient")));
}

} // namespace
} // namespace mailgrad
