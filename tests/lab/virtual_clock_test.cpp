#include <mailgrad/lab/virtual_clock.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace mailgrad::lab {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;

class VirtualClock : public ::testing::Test {
protected:
  auto noted(int what) {
    return [this, what] { told_.push_back(what); };
  }
  virtual_clock clock_;
  std::vector<int> told_;
};

TEST_F(VirtualClock, JumpsFromEventToEvent) {
  clock_.at(seconds{3}, noted(3));
  clock_.at(seconds{1}, noted(1));
  EXPECT_EQ(clock_.now(), instant{0});
  EXPECT_TRUE(clock_.next());
  EXPECT_EQ(clock_.now(), seconds{1});
  EXPECT_TRUE(clock_.next());
  EXPECT_EQ(clock_.now(), seconds{3});
  EXPECT_FALSE(clock_.next());
  EXPECT_THAT(told_, ElementsAre(1, 3));
}

TEST_F(VirtualClock, KeepsTheOrderOfEventsOfOneMoment) {
  for (int i = 0; i < 6; ++i) clock_.at(seconds{1}, noted(i));
  clock_.at(seconds{0}, noted(9));
  while (clock_.next()) {
  }
  EXPECT_THAT(told_, ElementsAre(9, 0, 1, 2, 3, 4, 5));
}

TEST_F(VirtualClock, NeverGoesBack) {
  clock_.at(seconds{2}, [this] { clock_.at(seconds{1}, noted(1)); });
  clock_.next();
  EXPECT_TRUE(clock_.next());
  EXPECT_EQ(clock_.now(), seconds{2});
  EXPECT_THAT(told_, ElementsAre(1));
}

TEST_F(VirtualClock, ForgetsItsEvents) {
  clock_.at(seconds{2}, noted(2));
  EXPECT_EQ(clock_.waiting(), 1U);
  clock_.clear();
  EXPECT_FALSE(clock_.next());
}

} // namespace
} // namespace mailgrad::lab
