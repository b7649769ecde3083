#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/graph/models/built_in.hpp>

#include <gmock/gmock.h>

// Whole runs on streams of a GPU whose products are in TF32 or in bfloat16.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using testing::gpu_options;
using ::testing::HasSubstr;
using testing::small_data;
using ::testing::ThrowsMessage;
using testing::trained;
using testing::weights_of;

class GpuPrecisions : public ::testing::Test {
protected:
  void SetUp() override { MAILGRAD_NEEDS_GPU(); }
};

TEST_F(GpuPrecisions, OfTf32AndBfloat16LearnAsWellAsInFloat32) {
  const auto accuracy = [](product_precision p, bool weights_there) {
    training_options o = gpu_options("sync", 2);
    o.precision = p;
    if (weights_there) o.parameters = {{device_kind::cuda, 0}};
    const training_report r = trained(o, small_data(400));
    EXPECT_EQ(r.ended, "completed") << r.why;
    EXPECT_EQ(r.precision, name(p));
    EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
    return r.test_accuracy.value();
  };
  const double in_float32 = accuracy(product_precision::float32, false);
  for (const product_precision p : {product_precision::tf32, product_precision::bfloat16})
    for (const bool weights_there : {false, true})
      EXPECT_NEAR(accuracy(p, weights_there), in_float32, 0.02) << name(p);
}

TEST_F(GpuPrecisions, OfBfloat16LearnATextAsWellAsInFloat32) {
  const auto loss = [](product_precision p) {
    training_options o = gpu_options("async", 1);
    o.precision = p;
    return train(*built_in_model("gpt:layers=1,width=16,heads=2"), testing::text(), o).test_loss.value();
  };
  const double in_float32 = loss(product_precision::float32);
  for (const product_precision p : {product_precision::tf32, product_precision::bfloat16})
    EXPECT_NEAR(loss(p), in_float32, 0.01 * in_float32) << name(p);
}

TEST_F(GpuPrecisions, AreReplayedAlone) {
  const scratch_folder folder;
  for (const product_precision p : {product_precision::tf32, product_precision::bfloat16}) {
    training_options o = gpu_options("async", 2);
    o.precision = p;
    o.record = (folder.path() / "run.rec").string();
    const std::vector<float> was = weights_of(o);
    o.replay = std::make_shared<const recording>(read_recording(o.record));
    o.record.clear();
    EXPECT_EQ(weights_of(o), was) << name(p);
    o.precision = product_precision::float32;
    EXPECT_THAT([&] { weights_of(o); },
                ThrowsMessage<recording_error>(HasSubstr("the precision of products was " +
                                                         std::string(name(p)) + ", and is float32 here")));
  }
}

/// Weights are float32 in any case, so a run may go on in another precision.
TEST_F(GpuPrecisions, OfBfloat16GoOnFromACheckpointInAnyPrecision) {
  const scratch_folder folder;
  training_options o = gpu_options("async", 1);
  o.precision = product_precision::bfloat16;
  const std::vector<float> at_once = weights_of(o);
  o.epochs = 2;
  o.checkpoints = {.folder = folder.path().string(), .every_steps = 5};
  weights_of(o);
  const auto last = std::make_shared<const checkpoint>(newest_checkpoint(folder.path()).what);
  o = gpu_options("async", 1);
  o.resume = last;
  const std::vector<float> in_float32 = weights_of(o);
  EXPECT_NE(in_float32, at_once);
  o.precision = product_precision::bfloat16;
  EXPECT_EQ(weights_of(o), at_once);
}

TEST_F(GpuPrecisions, AreRefusedOnCores) {
  training_options o = gpu_options("async", 2);
  o.precision = product_precision::tf32;
  o.devices[1] = {device_kind::cpu, 0};
  EXPECT_THAT([&] { trained(o); }, ThrowsMessage<std::invalid_argument>(
                                       AllOf(HasSubstr("precision: tf32: cpu:0 computes in float32"),
                                             HasSubstr("name streams of GPUs"))));
}

} // namespace
} // namespace mailgrad
