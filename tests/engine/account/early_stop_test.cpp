#include <mailgrad/engine/account/early_stop.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <stdexcept>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

early_stop when(std::string_view text, judged_on samples = judged_on::test) {
  return {parse_stop_conditions(text, samples), 0};
}

metrics_line line(double loss) {
  metrics_line x;
  x.train_loss = loss;
  return x;
}

evaluation_made test(std::uint64_t steps, double loss) { return {.steps = steps, .loss = loss}; }

std::string refusal(std::string_view text, judged_on samples = judged_on::test) {
  try {
    parse_stop_conditions(text, samples);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST(EarlyStop, ComparesAsTheSignSays) {
  EXPECT_TRUE(when("train_loss<0.3").judge(line(0.2)));
  EXPECT_FALSE(when("train_loss<0.3").judge(line(0.3)));
  EXPECT_TRUE(when("train_loss<=0.3").judge(line(0.3)));
  EXPECT_FALSE(when("train_loss<=0.3").judge(line(0.31)));
  EXPECT_TRUE(when("train_loss>0.3").judge(line(0.31)));
  EXPECT_FALSE(when("train_loss>0.3").judge(line(0.3)));
  EXPECT_TRUE(when("train_loss>=0.3").judge(line(0.3)));
  EXPECT_FALSE(when("train_loss>=0.3").judge(line(0.29)));
}

TEST(EarlyStop, SaysWhy) {
  EXPECT_EQ(when("train_loss < 0.3").judge(line(0.25)), "train_loss is 0.25, below 0.3");
  EXPECT_EQ(when("train_loss>=0.25").judge(line(0.25)), "train_loss is 0.25, at least 0.25");
}

TEST(EarlyStop, HoldsWhenAnyConditionDoes) {
  early_stop rule = when("time_s>600, train_loss<0.1");
  EXPECT_FALSE(rule.judge(line(0.5)));
  metrics_line late = line(0.5);
  late.time_s = 601;
  EXPECT_EQ(rule.judge(late), "time_s is 601, above 600");
}

TEST(EarlyStop, NeverHoldsForAFigureThatIsNotKnown) {
  EXPECT_FALSE(when("train_loss<0.3").judge(metrics_line{}));
  EXPECT_FALSE(when("train_loss<0.3").judge(line(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_FALSE(when("test_accuracy>0.1").judge(line(0.2)));
}

TEST(EarlyStop, ReadsShortNamesByTheSamplesOfTheTests) {
  metrics_line x = line(0.1);
  x.test_loss = 0.2;
  x.validation_loss = 0.3;
  EXPECT_EQ(when("loss<1", judged_on::nothing).judge(x), "train_loss is 0.1, below 1");
  EXPECT_EQ(when("loss<1", judged_on::test).judge(x), "test_loss is 0.2, below 1");
  EXPECT_EQ(when("loss<1", judged_on::validation).judge(x), "validation_loss is 0.3, below 1");
  x.validation_accuracy = 0.9;
  EXPECT_TRUE(when("accuracy>0.8", judged_on::validation).judge(x));
  x.test_rmse = 2;
  EXPECT_TRUE(when("rmse<3", judged_on::test).judge(x));
}

TEST(EarlyStop, RefusesWhatItCannotJudge) {
  EXPECT_EQ(refusal("loss"),
            "--stop-when 'loss': expected a figure, one of < <= > >=, and a number, as in loss<0.3");
  EXPECT_THAT(refusal(""), HasSubstr("expected a figure"));
  EXPECT_THAT(refusal("loss<0.3,"), HasSubstr("expected a figure"));
  EXPECT_THAT(refusal("loss<much"), HasSubstr("'much' is no number"));
  EXPECT_THAT(refusal("loss<nan"), HasSubstr("'nan' is no number"));
  EXPECT_THAT(refusal("loss=<0.3"), HasSubstr("there is no figure 'loss='"));
  EXPECT_THAT(refusal("test_los<0.3"), HasSubstr("did you mean 'test_loss'?"));
  EXPECT_THAT(refusal("accuracy>0.9", judged_on::nothing),
              HasSubstr("'test_accuracy' is not measured during the run; say how often to test"));
  EXPECT_THAT(refusal("test_loss<1", judged_on::validation), HasSubstr("the samples that are held out"));
  EXPECT_THAT(refusal("validation_loss<1", judged_on::test), HasSubstr("no samples are held out"));
}

TEST(EarlyStop, KnowsWhichConditionsAskForTests) {
  EXPECT_FALSE(asks_for_tests("loss<0.3, epoch>=3"));
  EXPECT_TRUE(asks_for_tests("time_s>9,accuracy>=0.9"));
  EXPECT_TRUE(asks_for_tests("validation_loss<0.3"));
  EXPECT_THROW(asks_for_tests("accuracy"), std::invalid_argument);
}

TEST(EarlyStop, LosesPatienceAfterSoManyTestsWithoutALowerLoss) {
  early_stop rule({}, 2);
  EXPECT_TRUE(rule.active());
  EXPECT_FALSE(rule.judge(test(10, 0.5)));
  EXPECT_FALSE(rule.judge(test(20, 0.6)));
  EXPECT_FALSE(rule.judge(test(30, 0.4))) << "a lower one begins the count anew";
  EXPECT_FALSE(rule.judge(test(40, 0.4))) << "an equal one is not lower";
  EXPECT_EQ(rule.judge(test(50, std::numeric_limits<double>::quiet_NaN())),
            "the test loss has not fallen in 2 tests; the lowest was 0.4, after 30 steps");
  EXPECT_FALSE(rule.judge(test(60, 0.9))) << "the run is told once";
}

TEST(EarlyStop, ComparesWithTheBestOfAnEarlierProcess) {
  early_stop rule({}, 1, {.steps = 10, .lowest_loss = 0.3, .lowest_at = 10});
  EXPECT_TRUE(rule.judge(test(20, 0.35)));
}

/// With other workers than before, the steps of tests begin anew, and those of the run do not.
TEST(EarlyStop, NamesTheLowestTestByTheStepsOfTheWholeRun) {
  early_stop rule({}, 1, {.lowest_loss = 0.5, .lowest_at = 90}, counted_tests::for_patience, 100);
  EXPECT_FALSE(rule.judge(test(10, 0.4)));
  EXPECT_EQ(rule.tests().lowest_at, 110U);
  EXPECT_EQ(rule.tests().steps, 10U) << "as the tests to come count";
  EXPECT_THAT(rule.judge(test(20, 0.6)).value(), ::testing::HasSubstr("the lowest was 0.4, after 110 steps"));
}

/// Wherever a run is interrupted, it ends by the same test and for the same reason.
TEST(EarlyStop, GoesOnCountingAfterAnInterruption) {
  const std::vector<evaluation_made> tests{test(10, 0.5), test(20, 0.6), test(30, 0.4),
                                           test(40, 0.7), test(50, 0.4), test(60, 0.9)};
  for (std::size_t interrupted = 0; interrupted < tests.size(); ++interrupted) {
    SCOPED_TRACE(interrupted);
    early_stop rule({}, 3);
    std::optional<std::string> why;
    for (std::size_t i = 0; i < tests.size(); ++i) {
      EXPECT_FALSE(why);
      if (i == interrupted) {
        saved_fields written;
        judged_tests so_far = rule.tests();
        written.field("tests", so_far);
        saved_fields read(written.text(), {});
        judged_tests again;
        read.field("tests", again);
        EXPECT_EQ(again, so_far);
        rule = early_stop({}, 3, again);
      }
      why = rule.judge(tests[i]);
    }
    EXPECT_EQ(why, "the test loss has not fallen in 3 tests; the lowest was 0.4, after 30 steps");
  }
}

TEST(EarlyStop, NamesTheSamplesThatAreHeldOut) {
  early_stop rule({}, 1);
  rule.judge(test(10, 0.3));
  evaluation_made x = test(20, 0.3);
  x.held_out = true;
  EXPECT_THAT(rule.judge(x).value_or(""), HasSubstr("the validation loss has not fallen in 1 test;"));
}

TEST(EarlyStop, StopsNothingUnlessItIsTold) {
  early_stop rule;
  EXPECT_FALSE(rule.active());
  EXPECT_FALSE(rule.judge(line(0)));
  EXPECT_FALSE(rule.judge(test(1, 1)));
  EXPECT_FALSE(rule.judge(test(2, 2)));
}

} // namespace
} // namespace mailgrad
