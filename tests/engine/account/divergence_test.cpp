#include <mailgrad/engine/account/early_stop.hpp>

#include <mailgrad/data/dataset.hpp>

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(DivergenceWatch, EndsARunWhoseLossGrowsAndGrows) {
  const auto why = told({chance_of_ten, 1}, grown(2.3, 10, 20));
  ASSERT_TRUE(why);
  EXPECT_THAT(*why, AllOf(HasSubstr("the loss has grown to nonsense"), HasSubstr("60 steps in a row"),
                          HasSubstr("--lr"), HasSubstr("--on-divergence go-on"), Not(HasSubstr("\n"))));
}

TEST(DivergenceWatch, EndsARunWhoseLossHasGrownAndStays) {
  std::vector<double> losses{2.3, 2.1, 40, 1e15, 1.2e15, 1.1e15, 1e15};
  const auto why = told({chance_of_ten, 1}, losses);
  ASSERT_TRUE(why);
  EXPECT_THAT(*why, AllOf(HasSubstr(" 1e+15 or more"), HasSubstr("above the limit of 2303")));
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

TEST(DivergenceWatch, IsSilentAboutASpike) {
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

TEST(DivergenceWatch, IsSilentAboutALossThatIsHighAndBounded) {
  EXPECT_FALSE(told({chance_of_ten, 1}, {2.3, 300, 500, 420, 380, 510, 400, 300, 250}));
}

TEST(DivergenceWatch, OfARunThatGoesOnSaysNothing) {
  EXPECT_FALSE(told(divergence_watch(), grown(2.3, 10, 30)));
  divergence_watch none;
  none.take(1, 8, 8e9);
  EXPECT_TRUE(std::isinf(none.limit()));
}

TEST(DivergenceWatch, LeavesStepsOutWhoseLossNobodyKnows) {
  divergence_watch watch(chance_of_ten, 1);
  watch.take(3, 0, 0); // gradients that are discarded anyway
  EXPECT_TRUE(std::isinf(watch.limit()));
  watch.take(1, 8, 8 * 2.5);
  EXPECT_DOUBLE_EQ(watch.limit(), 2500);
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

TEST(LossInWords, HasFewDigitsIfItIsLarge) {
  EXPECT_EQ(loss_in_words(2.302585), "2.3026");
  EXPECT_EQ(loss_in_words(123456.5), "123456.5000");
  EXPECT_EQ(loss_in_words(1.2345e15), "1.2e+15");
  EXPECT_EQ(loss_in_words(3e38), "3e+38");
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
