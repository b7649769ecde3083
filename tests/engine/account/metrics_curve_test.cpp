#include <mailgrad/engine/account/metrics_line.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace mailgrad {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

metrics_line line(std::uint64_t step, bool tested = false) {
  metrics_line x;
  x.steps = step;
  if (tested) x.test_loss = 1;
  return x;
}

TEST(MetricsCurve, KeepsAllLinesOfAShortRun) {
  metrics_curve c;
  EXPECT_THAT(c.lines(), IsEmpty());
  for (std::uint64_t i = 1; i < metrics_curve::most; ++i) c.add(line(i));
  ASSERT_THAT(c.lines(), SizeIs(metrics_curve::most - 1));
  EXPECT_EQ(c.lines().back().steps, metrics_curve::most - 1);
}

TEST(MetricsCurve, ThinsEvenlyAndKeepsTheLastLine) {
  for (const std::uint64_t count : {200U, 201U, 399U, 1000U, 54'321U}) {
    metrics_curve c;
    for (std::uint64_t i = 1; i <= count; ++i) c.add(line(i));
    const auto lines = c.lines();
    ASSERT_LE(lines.size(), metrics_curve::most);
    ASSERT_GE(lines.size(), metrics_curve::most / 2 - 1);
    EXPECT_EQ(lines.front().steps, 1U);
    EXPECT_EQ(lines.back().steps, count);
    const std::uint64_t apart = lines[1].steps - lines[0].steps;
    for (std::size_t i = 2; i + 1 < lines.size(); ++i) EXPECT_EQ(lines[i].steps - lines[i - 1].steps, apart);
  }
}

TEST(MetricsCurve, KeepsTestsLongerThanOtherLines) {
  metrics_curve c;
  for (std::uint64_t i = 1; i <= 5000; ++i) c.add(line(i, i % 100 == 0));
  const auto lines = c.lines();
  EXPECT_LE(lines.size(), metrics_curve::most);
  EXPECT_EQ(std::ranges::count_if(lines, &metrics_line::tested), 50);
}

TEST(MetricsCurve, ThinsTestsWhenTheyAreTooMany) {
  metrics_curve c;
  for (std::uint64_t i = 1; i <= 5000; ++i) c.add(line(i, true));
  EXPECT_LE(c.lines().size(), metrics_curve::most);
  EXPECT_EQ(c.lines().back().steps, 5000U);
}

} // namespace
} // namespace mailgrad
