#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/actors/runs/gpu_runs.hpp>
#include <mailgrad/tests/engine/layouts.hpp>

#include <fstream>
#include <iterator>

namespace mailgrad::testing {
namespace {

using simulated_gpu::faults;
using ::testing::AllOf, ::testing::HasSubstr, ::testing::ThrowsMessage;

// ---- of a GPU that multiplies by another version: products of two versions differ

class GpuProducts : public ::testing::Test {
protected:
  void SetUp() override { multiply_by("cuBLAS 13.0.0"); }
  void TearDown() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }
  static void multiply_by(const std::string& version) {
    set_up_gpu([&](auto& s) { s.products = version; });
  }
  std::string in_folder(const char* name) const { return (folder_.path() / name).string(); }
  std::vector<float> recorded(training_options o) const {
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
  EXPECT_FALSE(trained(gpu_options("async", 1)).resumed);
  training_options o = resumed(gpu_options("async", 1), in_folder("ck"));
  const auto before = [&] { return trained(o).resumed.value().products_before; };
  EXPECT_EQ(before(), "");
  multiply_by("cuBLAS 13.1.0");
  EXPECT_EQ(before(), "cuBLAS 13.0.0");
  o.devices = options_for("async", 1).devices;
  EXPECT_EQ(before(), "") << "nothing multiplies on GPUs any more";
}

/// Its replay starts from the beginning, all of which one version has to compute.
TEST_F(GpuProducts, OfAnotherVersionDoNotGoOnWithARecording) {
  training_options o = gpu_options("async", 1, {.epochs = 2});
  o.checkpoints = {.folder = in_folder("ck"), .every_steps = 5};
  recorded(o);
  o.epochs = 4;
  o.checkpoints = {};
  o.record = in_folder("run.rec");
  o.resume = newest_in(in_folder("ck"));
  multiply_by("cuBLAS 13.1.0");
  EXPECT_THAT([&] { weights_of(o); },
              ThrowsMessage<recording_error>(AllOf(HasSubstr("cannot go on"), HasSubstr("cuBLAS 13.1.0"))));
}

// ---- for lack of memory to begin with: nothing on the disk tells of it

std::map<std::string, std::string> files_in(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    files[entry.path().string()] = {std::istreambuf_iterator<char>(in), {}};
  }
  return files;
}

class GpuRefusals : public ::testing::TestWithParam<std::optional<std::uint64_t> faults::*> {
protected:
  void TearDown() override { fail({}); }
  static void fail(const faults& what) {
    set_up_gpu([&](auto& s) { s.fail = what; });
  }
  std::string file(const char* name) const { return (folder_.path() / name).string(); }
  /// As many as fail before the run begins.
  std::uint64_t refusals(const training_options& o) const {
    const auto before = files_in(folder_.path());
    for (std::uint64_t n = 1;; ++n) {
      faults what;
      what.*GetParam() = n;
      fail(what);
      try {
        training run(small_model(), small_data(), o);
        run.stop("begun");
        run.report();
        return n - 1;
      } catch (const device_error& e) {
        EXPECT_THAT(e.what(), ::testing::HasSubstr("out of memory"));
      }
      EXPECT_TRUE(files_in(folder_.path()) == before) << n;
    }
  }

  const scratch_folder folder_;
};

TEST_P(GpuRefusals, OfARunThatGoesBackLeaveEveryFileAsItWas) {
  training_options o = all_on_gpu("sync", 2);
  o.metrics = file("lines.jsonl");
  o.tensorboard = file("board");
  o.checkpoints = {.folder = file("kept"), .every_steps = 5};
  trained(o);
  const auto checkpoints = checkpoints_in(o.checkpoints.folder);
  ASSERT_GE(checkpoints.size(), 2U);
  o.resume = std::make_shared<const checkpoint>(checkpoint::read(checkpoints.back()));
  EXPECT_GT(refusals(o), 8U) << "of two workers";
  EXPECT_TRUE(std::filesystem::exists(o.metrics + ".old")) << "the run that began has kept them";
}

/// A cure and the block of hogwild take memory of the GPU on a thread of the shard.
TEST_P(GpuRefusals, OfAFreshRunLeaveOlderMetricsAsTheyWere) {
  std::vector<std::pair<const char*, const char*>> kinds{{"async", "none"}, {"async", "dana-zero:0.9"}};
#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right
  kinds.emplace_back("hogwild", "none");
#endif
  for (const auto& [policy, cure] : kinds) {
    SCOPED_TRACE(std::string(policy) + " with cure " + cure);
    training_options o = all_on_gpu(policy, 2);
    o.optimizer = sgd(0.05);
    o.cure = cure;
    o.metrics = file("lines.jsonl");
    trained(o);
    EXPECT_GT(refusals(o), 8U) << "of two workers";
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, GpuRefusals,
                         ::testing::Values(&faults::out_of_memory_at, &faults::pinned_out_of_memory_at),
                         [](const auto& kind) {
                           return kind.param == &faults::out_of_memory_at ? "OfTheGpu" : "OfTheHost";
                         });

TEST(GpuReports, SayWhyChainsHaveNoKernels) {
  const training_report r = trained(gpu_options("async", 1));
  ASSERT_TRUE(r.gpus);
  EXPECT_EQ(r.gpus->why_interpreted, "none: the simulated GPU has no compiler");
  EXPECT_THAT(to_json(r),
              ::testing::HasSubstr("\"why_interpreted\": \"none: the simulated GPU has no compiler\""));
}

} // namespace
} // namespace mailgrad::testing
