#include <mailgrad/cli/output/format_report.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Summary, SaysHowGpusWorkedAndWhyChainsHaveNoKernels) {
  training_report r;
  EXPECT_THAT(in_words(r), Not(HasSubstr("GPUs ")));
  r.gpus = gpu_figures{590, 10, 3, ""};
  EXPECT_THAT(in_words(r), HasSubstr("\nGPUs          590 steps as graphs, 10 by launches; 3 chains have "
                                     "kernels of their own\n"));
  r.gpus->why_interpreted = "none: NVRTC 12.4 is not for CUDA 13";
  EXPECT_THAT(in_words(r), HasSubstr("kernels of their own, others none: NVRTC 12.4 is not for CUDA 13\n"));
}

/// Steps of models that span devices are not counted.
TEST(Summary, HasNoStepsOfGpusIfNoneWereCounted) {
  training_report r;
  r.steps = 4;
  r.gpus = gpu_figures{0, 0, 3, ""};
  EXPECT_THAT(in_words(r), HasSubstr("\nGPUs          3 chains have kernels of their own\n"));
  r.gpus->launched_steps = 1;
  EXPECT_THAT(in_words(r), HasSubstr("\nGPUs          0 steps as graphs, 1 by launches; 3 chains"));
}

TEST(Summary, NamesThePolicyOfTheEndOnlyIfItIsAnother) {
  training_report r;
  r.ended = "completed";
  r.present_policy = "async";
  EXPECT_THAT(in_words(r), Not(HasSubstr("policy ")));
  r.present_policy = "sync";
  r.switches = {{298, "async", "sync", "planned for step 300"}};
  EXPECT_THAT(in_words(r), HasSubstr("\npolicy        sync since step 298\n"));
}

TEST(Summary, SaysThatTimeIsVirtual) {
  training_report r;
  r.ended = "completed";
  r.steps = r.samples = 1;
  r.wall_seconds = 2;
  EXPECT_THAT(in_words(r), ::testing::StartsWith("completed after 1 step, 1 sample, 2.00 s: "));
  r.delays.emplace().virtual_time = true;
  EXPECT_THAT(in_words(r), ::testing::ContainsRegex("2.00 virtual s: [0-9]+ samples a virtual second\n"));
}

TEST(Summary, SaysWhoWasLost) {
  training_report r;
  r.members = {{"worker", 0}, {"worker", 1}};
  r.members[0].is = run_member::state::done;
  EXPECT_THAT(in_words(r), Not(HasSubstr("members "))) << "all have stayed";
  r.members[1].is = run_member::state::lost;
  r.members[1].losses = 1;
  r.members[1].why = "it was killed";
  EXPECT_THAT(in_words(r), HasSubstr("\nmembers       1 worker done, 1 lost\n"));
  EXPECT_THAT(in_words(r), HasSubstr(" it was killed\n"));
}

} // namespace
} // namespace mailgrad
