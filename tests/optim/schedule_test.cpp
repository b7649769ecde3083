#include <mailgrad/optim/schedule.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

double rate(const char* text, std::uint64_t step) { return learning_rate(parse_schedule(text), 1, step); }

std::string complaint(const char* text) {
  try {
    parse_schedule(text);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST(LearningRateSchedule, ListsTheNamesThatItKnows) {
  EXPECT_EQ(complaint("linear"), "schedule 'linear' is unknown; known are: constant, step, cosine");
}

TEST(LearningRateSchedule, StaysWhereItIsIfConstant) {
  EXPECT_EQ(learning_rate({}, 0.3, 1), 0.3);
  EXPECT_EQ(rate("constant", 1'000'000), 1.0);
}

TEST(LearningRateSchedule, FallsByTheFactorAfterEverySoManySteps) {
  EXPECT_EQ(rate("step:every=500,factor=0.5", 1), 1.0);
  EXPECT_EQ(rate("step:every=500,factor=0.5", 500), 1.0);
  EXPECT_EQ(rate("step:every=500,factor=0.5", 501), 0.5);
  EXPECT_EQ(rate("step:every=500,factor=0.5", 1501), 0.125);
}

TEST(LearningRateSchedule, FollowsHalfACosineAndThenStays) {
  EXPECT_EQ(rate("cosine:total=1000", 1), 1.0);
  EXPECT_NEAR(rate("cosine:total=1000", 501), 0.5, 1e-15);
  EXPECT_NEAR(rate("cosine:total=1000", 251), 0.853553390593274, 1e-14);
  EXPECT_NEAR(rate("cosine:total=1000", 1001), 0, 1e-15);
  EXPECT_NEAR(rate("cosine:total=1000", 5000), 0, 1e-15);
  EXPECT_NEAR(rate("cosine:total=1000,final=0.1", 5000), 0.1, 1e-15);
}

TEST(LearningRateSchedule, RisesInALineBeforeItsShapeBegins) {
  EXPECT_EQ(rate("constant:warmup=4", 1), 0.25);
  EXPECT_EQ(rate("constant:warmup=4", 4), 1.0);
  EXPECT_EQ(rate("constant:warmup=4", 5), 1.0);
  EXPECT_EQ(rate("step:every=10,factor=0.5,warmup=4", 14), 1.0);
  EXPECT_EQ(rate("step:every=10,factor=0.5,warmup=4", 15), 0.5);
}

TEST(LearningRateSchedule, CountsTheWarmUpIntoTheTotalOfACosine) {
  EXPECT_NEAR(rate("cosine:total=1000,warmup=200", 601), 0.5, 1e-15);
  EXPECT_NEAR(rate("cosine:total=1000,warmup=200", 1001), 0, 1e-15);
}

TEST(LearningRateSchedule, KnowsTheLastStepWithARateAboveZero) {
  for (const char* text : {"constant", "constant:warmup=5", "step:every=10", "cosine:total=9,final=0.1"})
    EXPECT_FALSE(last_step_above_zero(parse_schedule(text))) << text;
  for (const char* text : {"cosine:total=20", "cosine:total=20,warmup=6", "step:every=9,factor=0",
                           "step:every=9,factor=0,warmup=4"}) {
    const std::uint64_t last = last_step_above_zero(parse_schedule(text)).value();
    EXPECT_GT(rate(text, last), 1e-9) << text;
    EXPECT_NEAR(rate(text, last + 1), 0, 1e-15) << text;
  }
}

TEST(LearningRateSchedule, ReadsWhatItWrites) {
  for (const char* text : {"constant", "constant:warmup=5", "step:every=500,factor=0.25",
                           "cosine:total=1000,final=0.125,warmup=100"})
    EXPECT_EQ(to_string(parse_schedule(text)), text);
}

TEST(LearningRateSchedule, NamesTheNearestRightName) {
  EXPECT_THAT(complaint("cosin:total=5"), AllOf(HasSubstr("'cosin'"), HasSubstr("'cosine'")));
  EXPECT_THAT(complaint("step:evry=5"), AllOf(HasSubstr("'evry'"), HasSubstr("'every'")));
}

TEST(LearningRateSchedule, RefusesNumbersWithoutAMeaning) {
  EXPECT_THAT(complaint("step:every=0"), HasSubstr("every must be at least 1"));
  EXPECT_THAT(complaint("step:factor=-1"), HasSubstr("factor"));
  EXPECT_THAT(complaint("step:factor=nan"), HasSubstr("factor"));
  EXPECT_THAT(complaint("cosine"), HasSubstr("total must be more than"));
  EXPECT_THAT(complaint("cosine:total=100,warmup=100"), HasSubstr("100 steps of the warm-up"));
  EXPECT_THAT(complaint("cosine:total=-5"), HasSubstr("'-5'"));
}

} // namespace
} // namespace mailgrad
