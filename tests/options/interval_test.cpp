#include <mailgrad/options/interval.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;

TEST(Interval, IsANumberOfStepsATimeOrAnEpoch) {
  EXPECT_EQ(parse_interval("500"), (interval{500, {}, 0}));
  EXPECT_EQ(parse_interval("epoch"), (interval{0, {}, 1}));
  EXPECT_EQ(parse_interval("1s"), (interval{0, 1s, 0}));
  EXPECT_EQ(parse_interval("0.5s"), (interval{0, 500ms, 0}));
  EXPECT_EQ(parse_interval("250ms"), (interval{0, 250ms, 0}));
  EXPECT_EQ(parse_interval("10min"), (interval{0, 10min, 0}));
  EXPECT_EQ(parse_interval("2h"), (interval{0, 2h, 0}));
  EXPECT_TRUE(interval{}.never());
  EXPECT_FALSE(parse_interval("epoch").never());
}

TEST(Interval, IsRefusedWhereItWouldBeNoneOrTooLong) {
  for (const char* text : {"", "0", "-1", "1.5", "s", "0s", "-1s", "nans", "infs", "1e300h", "0.1ms", "1d",
                           "epochs", "1 s", "99999999999999999999"})
    EXPECT_THROW(parse_interval(text), std::invalid_argument) << text;
}

} // namespace
} // namespace mailgrad
