#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <gmock/gmock.h>

#include <string>

// What multiplies on a GPU, and its version, is a fact of a run: products of two versions differ.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using testing::gpu_options;
using ::testing::HasSubstr;
using testing::options_for;
using ::testing::ThrowsMessage;
using testing::trained;
using testing::weights_of;

class GpuProducts : public ::testing::Test {
protected:
  void SetUp() override { multiply_by("cuBLAS 13.0.0"); }
  void TearDown() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  static void multiply_by(const std::string& version) {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.products = version;
    simulated_gpu::set_up(s);
  }
  std::string in_folder(const char* name) const { return (folder_.path() / name).string(); }
  /// A run on the GPU that is recorded, and its weights.
  std::vector<float> recorded(const training_options& run) const {
    training_options o = run;
    o.record = in_folder("run.rec");
    return weights_of(o);
  }

  const scratch_folder folder_;
};

TEST_F(GpuProducts, OfAnotherVersionRefuseAReplayAndNameBoth) {
  training_options o = gpu_options("async", 2);
  const std::vector<float> was = recorded(o);
  o.replay = std::make_shared<const recording>(read_recording(in_folder("run.rec")));
  EXPECT_EQ(reported_fact(o.replay->header.facts, products_fact), "cuBLAS 13.0.0");
  EXPECT_EQ(weights_of(o), was);
  multiply_by("cuBLAS 13.1.0");
  EXPECT_THAT([&] { weights_of(o); },
              ThrowsMessage<recording_error>(AllOf(HasSubstr("the version of products was cuBLAS 13.0.0"),
                                                   HasSubstr("is cuBLAS 13.1.0 here"))));
}

TEST_F(GpuProducts, AreNoFactOfARunOnCores) {
  recorded(options_for("async", 2));
  EXPECT_EQ(reported_fact(read_recording(in_folder("run.rec")).header.facts, products_fact), "not told");
}

TEST_F(GpuProducts, ThatARecordingDoesNotTellRefuseNoReplay) {
  training_options o = gpu_options("async", 2);
  const std::vector<float> was = recorded(o);
  recording unreported = read_recording(in_folder("run.rec"));
  std::erase_if(unreported.header.facts, [](const auto& fact) { return fact.first == products_fact; });
  o.replay = std::make_shared<const recording>(std::move(unreported));
  multiply_by("cuBLAS 13.1.0");
  EXPECT_EQ(weights_of(o), was);
}

TEST_F(GpuProducts, OfAnotherVersionGoOnFromACheckpointWhichTheReportSays) {
  training_options o = gpu_options("async", 1);
  o.epochs = 2;
  o.checkpoints = {.folder = in_folder("ck"), .every_steps = 5};
  EXPECT_FALSE(trained(o).resumed);
  o.checkpoints = {};
  o.epochs = 4;
  o.resume = std::make_shared<const checkpoint>(newest_checkpoint(in_folder("ck")).what);
  const auto before = [&] { return trained(o).resumed.value().products_before; };
  EXPECT_EQ(before(), "");
  multiply_by("cuBLAS 13.1.0");
  EXPECT_EQ(before(), "cuBLAS 13.0.0");
  o.devices = options_for("async", 1).devices;
  EXPECT_EQ(before(), "") << "nothing multiplies on GPUs any more";
}

/// Its replay starts from the beginning, all of which one version has to compute.
TEST_F(GpuProducts, OfAnotherVersionDoNotGoOnWithARecording) {
  training_options o = gpu_options("async", 1);
  o.epochs = 2;
  o.checkpoints = {.folder = in_folder("ck"), .every_steps = 5};
  recorded(o);
  o.epochs = 4;
  o.checkpoints = {};
  o.record = in_folder("run.rec");
  o.resume = std::make_shared<const checkpoint>(newest_checkpoint(in_folder("ck")).what);
  multiply_by("cuBLAS 13.1.0");
  EXPECT_THAT([&] { weights_of(o); },
              ThrowsMessage<recording_error>(AllOf(HasSubstr("cannot go on"), HasSubstr("cuBLAS 13.1.0"))));
}

} // namespace
} // namespace mailgrad
