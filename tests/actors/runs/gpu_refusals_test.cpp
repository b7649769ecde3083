#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// A run that lacks memory to begin with is refused, and nothing on the disk tells of it.

namespace mailgrad {
namespace {

using simulated_gpu::faults;
using testing::gpu_options;
using testing::small_data;
using testing::small_model;
using testing::trained;

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
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.fail = what;
    simulated_gpu::set_up(s);
  }

  training_options run_with_files() const {
    training_options o = gpu_options("sync", 2);
    o.parameters = {{device_kind::cuda, 0}};
    o.metrics = (folder_.path() / "lines.jsonl").string();
    o.tensorboard = (folder_.path() / "board").string();
    o.checkpoints = {.folder = (folder_.path() / "kept").string(), .every_steps = 5};
    return o;
  }

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
  training_options o = run_with_files();
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
    training_options o = testing::all_on_gpu(policy, 2);
    o.optimizer = testing::sgd(0.05);
    o.cure = cure;
    o.metrics = (folder_.path() / "lines.jsonl").string();
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
} // namespace mailgrad
