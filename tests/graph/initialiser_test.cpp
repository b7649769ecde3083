#include <mailgrad/graph/initialiser.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::AllOf, testing::Each, testing::Ge, testing::Lt;

std::vector<float> draw(const initialiser& how, std::uint64_t seed, std::string_view name,
                        std::size_t n = 20000) {
  std::vector<float> values(n);
  initialise(how, seed, name, values);
  return values;
}

double mean(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v);
  return sum / static_cast<double>(values.size());
}

double deviation(const std::vector<float>& values) {
  const double middle = mean(values);
  double sum = 0;
  for (const float v : values) sum += (static_cast<double>(v) - middle) * (static_cast<double>(v) - middle);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(Initialiser, DrawsTheSameFromTheSameSeedAndName) {
  const auto how = initialiser::normal(0, 1);
  EXPECT_EQ(draw(how, 1, "w"), draw(how, 1, "w"));
  EXPECT_NE(draw(how, 1, "w"), draw(how, 2, "w"));
  EXPECT_NE(draw(how, 1, "w"), draw(how, 1, "b"));
}

TEST(Initialiser, DrawsTheFirstValuesWhateverTheSize) {
  const auto all = draw(initialiser::uniform(-1, 1), 7, "w", 100);
  const auto few = draw(initialiser::uniform(-1, 1), 7, "w", 3);
  EXPECT_THAT(few, testing::ElementsAre(all[0], all[1], all[2]));
}

TEST(Initialiser, DrawsUniformNumbersWithinTheirEnds) {
  const auto values = draw(initialiser::uniform(-2, 4), 1, "w");
  EXPECT_THAT(values, Each(AllOf(Ge(-2.0F), Lt(4.0F))));
  EXPECT_NEAR(mean(values), 1, 0.05);
  EXPECT_NEAR(deviation(values), 6 / std::sqrt(12.0), 0.05);
}

TEST(Initialiser, DrawsNormalNumbersOfItsMeanAndDeviation) {
  const auto values = draw(initialiser::normal(3, 0.5F), 1, "w");
  EXPECT_NEAR(mean(values), 3, 0.02);
  EXPECT_NEAR(deviation(values), 0.5, 0.02);
}

TEST(Initialiser, FillsWithAConstant) {
  EXPECT_THAT(draw(initialiser::constant(2.5F), 1, "w", 5), Each(2.5F));
  EXPECT_THAT(draw(initialiser::zeros(), 1, "w", 5), Each(0.0F));
}

TEST(Initialiser, ScalesWithTheNumberOfInputsAsThePapersSay) {
  EXPECT_NEAR(deviation(draw(initialiser::glorot(300, 100), 1, "w")), std::sqrt(2.0 / 400), 0.002);
  EXPECT_NEAR(deviation(draw(initialiser::he(200), 1, "w")), std::sqrt(2.0 / 200), 0.002);
}

} // namespace
} // namespace mailgrad
