#include <mailgrad/cli/output/format_report.hpp>

#include <mailgrad/cli/output/failure_line.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using namespace ::testing;

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
  EXPECT_THAT(in_words(r), StartsWith("completed after 1 step, 1 sample, 2.00 s: "));
  r.delays.emplace().virtual_time = true;
  EXPECT_THAT(in_words(r), ContainsRegex("2.00 virtual s: [0-9]+ samples a virtual second\n"));
}

TEST(Summary, SaysWhoWasLost) {
  training_report r;
  r.members = {{"worker", 0}, {"worker", 1}};
  r.members[0].is = run_member::state::done;
  EXPECT_THAT(in_words(r), Not(HasSubstr("members "))) << "all have stayed";
  r.members[1].is = run_member::state::lost;
  r.members[1].losses = 1;
  r.members[1].why = "it was killed";
  EXPECT_THAT(in_words(r),
              AllOf(HasSubstr("\nmembers       1 worker done, 1 lost\n"), HasSubstr(" it was killed\n")));
}

TEST(TestWords, CountTheTestsOfARunAndThoseThatAreLeftOut) {
  training_report r;
  EXPECT_EQ(evaluation_lines(r), "");
  r.evaluations = {3, 0.214, "", 0, ""};
  EXPECT_EQ(evaluation_lines(r), "evaluations   3 during the run, 0.21 s on a thread of their own\n");
  r.evaluations.left_out = 1;
  r.evaluations.why_left_out = "shard 0 had no memory";
  EXPECT_EQ(evaluation_lines(r), "evaluations   3 during the run, 0.21 s on a thread of their own; 1 left "
                                 "out: shard 0 had no memory\n");
  r.evaluations = {0, 0, "", 2, "no such label"};
  EXPECT_EQ(evaluation_lines(r), "evaluations   0 during the run, 0.00 s on a thread of their own; 2 left "
                                 "out, the last: no such label\n");
  EXPECT_THAT(in_words(r), HasSubstr(evaluation_lines(r)));
}

TEST(TestWords, SayWhichTestsAGpuHasLeftToTheHost) {
  training_report r;
  r.tested = tests_made{"cuda:0", "", ""};
  EXPECT_EQ(evaluation_lines(r), "");
  r.evaluations.why_on_host = "cuda:0: out of memory";
  EXPECT_EQ(evaluation_lines(r), "tests         on the host during the run: cuda:0: out of memory\n");
  r.tested = tests_made{"cpu:0", "the GPU is lost", ""};
  EXPECT_EQ(evaluation_lines(r), "tests         on the host during the run: cuda:0: out of memory\n"
                                 "tests         on the host at the end: the GPU is lost\n");
  r.evaluations.why_on_host = "the GPU is lost";
  EXPECT_EQ(evaluation_lines(r),
            "tests         on the host during the run and at its end: the GPU is lost\n");
  r.evaluations.why_on_host = "";
  EXPECT_EQ(evaluation_lines(r), "tests         on the host at the end: the GPU is lost\n");
  r.tested = tests_made{"cuda:0", "", "cuda:0: out of memory"};
  EXPECT_EQ(evaluation_lines(r), "text          on the host: cuda:0: out of memory\n");
}

TEST(TestWords, TellTheLastTestsAsFarAsTheyAreKnown) {
  training_report r;
  EXPECT_EQ(last_test_lines(r), "");
  r.best = best_test{60, 0.5, true, ""};
  r.validation_loss = 0.5;
  r.validation_accuracy = 0.75;
  r.test_accuracy = 0.625;
  EXPECT_EQ(last_test_lines(r), "weights       of the best test, validation loss 0.5000 after step 60\n"
                                "validation    loss 0.5000, accuracy 0.7500\n"
                                "test accuracy 0.6250\n");
  r.best->why_last_untested = "no memory";
  EXPECT_THAT(last_test_lines(r),
              StartsWith("weights       of the best test, validation loss 0.5000 after step "
                         "60; the last ones could not be tested: no memory\n"));
}

TEST(FittedLines, StandInTheSecondColumn) {
  const std::string digest(64, 'a');
  EXPECT_EQ(fitted_lines("updates       12\nparameters    sha256 " + digest + "\n", 80),
            "updates       12\nparameters    sha256\n              " + digest + "\n");
  EXPECT_EQ(fitted_lines("sampled       one two three\n", 22),
            "sampled       one two\n              three\n");
}

TEST(FittedLines, LeaveTextsAndTablesAsTheyAre) {
  const std::string text = "sample\n  " + std::string(30, 'x') + " " + std::string(30, 'y') + "\n";
  EXPECT_EQ(fitted_lines(text, 40), text);
  EXPECT_EQ(fitted_lines("a word that is wide\n", 10), "a word that is wide\n") << "no room for two columns";
}

TEST(FittedLines, AreNotMadeForAFile) {
  const std::string line(200, 'x');
  EXPECT_EQ(fitted_to(-1, line), line);
}

} // namespace
} // namespace mailgrad
