#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

namespace mailgrad {
namespace {

using namespace ::testing;

early_stop when(std::string_view text, judged_on samples = judged_on::test) {
  return {parse_stop_conditions(text, samples), 0};
}

metrics_line line(double loss) {
  metrics_line x;
  x.train_loss = loss;
  return x;
}

evaluation_made test(std::uint64_t steps, double loss) { return {.steps = steps, .loss = loss}; }

TEST(EarlyStop, ComparesAsTheSignSays) {
  struct row {
    const char* condition;
    double holds, does_not;
  };
  for (const row& r : {row{"train_loss<0.3", 0.2, 0.3}, row{"train_loss<=0.3", 0.3, 0.31},
                       row{"train_loss>0.3", 0.31, 0.3}, row{"train_loss>=0.3", 0.3, 0.29}}) {
    EXPECT_TRUE(when(r.condition).judge(line(r.holds))) << r.condition;
    EXPECT_FALSE(when(r.condition).judge(line(r.does_not))) << r.condition;
  }
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
  struct row {
    const char* text;
    const char* why;
    judged_on samples = judged_on::test;
  };
  for (const row& r :
       {row{"loss", "--stop-when 'loss': expected a figure, one of < <= > >=, and a number, as in loss<0.3"},
        row{"", "expected a figure"}, row{"loss<0.3,", "expected a figure"},
        row{"loss<much", "'much' is no number"}, row{"loss<nan", "'nan' is no number"},
        row{"loss=<0.3", "there is no figure 'loss='"}, row{"test_los<0.3", "did you mean 'test_loss'?"},
        row{"accuracy>0.9", "'test_accuracy' is not measured during the run; say how often to test",
            judged_on::nothing},
        row{"test_loss<1", "the samples that are held out", judged_on::validation},
        row{"validation_loss<1", "no samples are held out"}})
    testing::expect_refused({r.text, [&] { parse_stop_conditions(r.text, r.samples); }, r.why});
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
  early_stop untold;
  EXPECT_FALSE(untold.active());
  EXPECT_FALSE(untold.judge(line(0)));
  EXPECT_FALSE(untold.judge(test(1, 1)));
  EXPECT_FALSE(untold.judge(test(2, 2)));
}

/// With other workers than before, the steps of tests begin anew, and those of the run do not.
TEST(EarlyStop, NamesTheLowestTestByTheStepsOfTheWholeRun) {
  early_stop resumed({}, 1, {.steps = 10, .lowest_loss = 0.3, .lowest_at = 10});
  EXPECT_TRUE(resumed.judge(test(20, 0.35))) << "the best is of an earlier process";
  early_stop rule({}, 1, {.lowest_loss = 0.5, .lowest_at = 90}, counted_tests::for_patience, 100);
  EXPECT_FALSE(rule.judge(test(10, 0.4)));
  EXPECT_EQ(rule.tests().lowest_at, 110U);
  EXPECT_EQ(rule.tests().steps, 10U) << "as the tests to come count";
  EXPECT_THAT(rule.judge(test(20, 0.6)).value(), HasSubstr("the lowest was 0.4, after 110 steps"));
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

const double chance_of_ten = std::log(10.0);

/// What the watch says of notices with these losses, each of so many steps; the first is of one step.
std::optional<std::string> told(divergence_watch watch, const std::vector<double>& losses,
                                std::uint64_t steps = 20) {
  std::optional<std::string> why;
  for (const double loss : losses) {
    const std::uint64_t n = std::isinf(watch.limit()) ? 1 : steps;
    const auto now = watch.take(n, 8 * n, loss * static_cast<double>(8 * n));
    EXPECT_FALSE(now && why) << "it is told once";
    if (now) why = now;
  }
  return why;
}

std::vector<double> grown(double from, double factor, std::size_t count) {
  std::vector<double> all{from};
  while (all.size() < count) all.push_back(all.back() * factor);
  return all;
}

TEST(DivergenceWatch, EndsARunWhoseLossHasGrownAndDoesNotFall) {
  EXPECT_THAT(told({chance_of_ten, 1}, grown(2.3, 10, 20)).value_or(""),
              AllOf(HasSubstr("the loss has grown to nonsense"), HasSubstr("60 steps in a row"),
                    HasSubstr("--lr"), HasSubstr("--on-divergence go-on"), Not(HasSubstr("\n"))));
  EXPECT_THAT(told({chance_of_ten, 1}, {2.3, 2.1, 40, 1e15, 1.2e15, 1.1e15, 1e15}).value_or(""),
              AllOf(HasSubstr(" 1e+15 or more"), HasSubstr("above the limit of 2303")));
}

TEST(DivergenceWatch, WaitsForThreeNoticesOfEachWorkerAndThirtyTwoSteps) {
  const std::vector<double> two{2.3, 1e9, 1e9}, three{2.3, 1e9, 1e9, 1e9};
  EXPECT_FALSE(told({chance_of_ten, 1}, two));
  EXPECT_TRUE(told({chance_of_ten, 1}, three));
  EXPECT_FALSE(told({chance_of_ten, 2}, three)) << "of two workers";
  EXPECT_FALSE(told({chance_of_ten, 1}, three, 10)) << "of 30 steps";
  EXPECT_FALSE(told({chance_of_ten, 128}, std::vector<double>(400, 1e9), 1)) << "fewer than 4 of each";
  std::vector<double> many(513, 1e9);
  many[0] = 2.3;
  EXPECT_TRUE(told({chance_of_ten, 128}, many, 1));
}

TEST(DivergenceWatch, IsSilentAboutASpikeAndABoundedLoss) {
  EXPECT_FALSE(told({chance_of_ten, 1}, {2.3, 300, 500, 420, 380, 510, 400, 300, 250}));
  // One bad update: of two workers, each tells of it in two notices.
  EXPECT_FALSE(told({chance_of_ten, 2}, {2.3, 1.1, 1e12, 1e12, 1e12, 1e12, 3.2, 1.4, 1.0}));
  std::vector<double> every_other{2.3};
  for (int i = 0; i < 100; ++i) every_other.insert(every_other.end(), {1e9, 1e9, 0.5});
  EXPECT_FALSE(told({chance_of_ten, 1}, every_other));
}

TEST(DivergenceWatch, MeasuresARegressionByItsFirstLoss) {
  const double squares = 4e10; // prices of houses
  EXPECT_FALSE(told({squares, 1}, grown(6e14, 0.9, 200))) << "inputs that nobody has scaled";
  EXPECT_FALSE(told({squares, 1}, std::vector<double>(100, 6e14)));
  EXPECT_FALSE(told({squares, 1}, {6e14, 9e15, 8e16, 3e17, 9e16, 2e15})) << "a warm-up";
  EXPECT_TRUE(told({squares, 1}, grown(6e14, 100, 10)));
}

TEST(DivergenceWatch, MeasuresARunThatGoesOnByChance) {
  const double squares = 4e10;
  EXPECT_FALSE(told({squares, 1}, {1e6, 4e10, 5e10, 4e10, 4e10, 4e10, 3e10})) << "it has forgotten all";
  EXPECT_FALSE(told({chance_of_ten, 1}, {0.001, 2.3, 2.4, 2.3, 2.3, 2.3}));
  EXPECT_FALSE(told({0, 1}, {1e-12, 900, 900, 900, 900})) << "nothing below 1000 is nonsense";
}

TEST(DivergenceWatch, LeavesStepsOutWhoseLossNobodyKnows) {
  divergence_watch watch(chance_of_ten, 1);
  watch.take(3, 0, 0); // gradients that are discarded anyway
  EXPECT_TRUE(std::isinf(watch.limit()));
  watch.take(1, 8, 8 * 2.5);
  EXPECT_DOUBLE_EQ(watch.limit(), 2500);
  EXPECT_FALSE(told(divergence_watch(), grown(2.3, 10, 30))) << "of a run that goes on";
  divergence_watch none;
  none.take(1, 8, 8e9);
  EXPECT_TRUE(std::isinf(none.limit()));
}

TEST(DivergenceAtTheEnd, IsALossAboveTheLimitOrNone) {
  EXPECT_EQ(ended_in_nonsense("the test", 2300, 2300), "");
  EXPECT_THAT(ended_in_nonsense("the test", 1.2e15, 2300),
              AllOf(HasSubstr("that of the test is 1.2e+15, above the limit of 2300"), HasSubstr("--lr")));
  const double unlimited = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ended_in_nonsense("the test", 1e30, unlimited), "");
  for (const double none : {unlimited, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(ended_in_nonsense("the test", none, unlimited), "the loss of the test is no finite number");
}

TEST(FormatLoss, HasFewDigitsIfItIsLarge) {
  EXPECT_EQ(format_loss(2.302585), "2.3026");
  EXPECT_EQ(format_loss(123456.5), "123456.5000");
  EXPECT_EQ(format_loss(1.2345e15), "1.2e+15");
  EXPECT_EQ(format_loss(3e38), "3e+38");
}

TEST(ChanceLoss, IsThatOfKnowingNothing) {
  const dataset classes(float_features{{2}, std::vector<float>(8, 0.5F)}, {0, 1, 2, 1}, 3);
  EXPECT_DOUBLE_EQ(chance_loss(classes), std::log(3.0));
  const dataset numbers(float_features{{2}, std::vector<float>(4, 0.5F)}, std::vector<float>{3, -4});
  EXPECT_DOUBLE_EQ(chance_loss(numbers), 12.5);
  EXPECT_DOUBLE_EQ(chance_loss(dataset()), 0);
}

} // namespace
} // namespace mailgrad
