#include <mailgrad/cli/output/format_report.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

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
              ::testing::StartsWith("weights       of the best test, validation loss 0.5000 after step "
                                    "60; the last ones could not be tested: no memory\n"));
}

} // namespace
} // namespace mailgrad
