#include <mailgrad/lab/virtual_clock.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <utility>
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
  while (clock_.next()) continue;
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

TEST_F(VirtualClock, KeepsTheOrderOfThousandsOfEvents) {
  std::mt19937_64 random(1);
  std::vector<std::pair<instant, int>> asked;
  std::vector<int> order;
  int number = 0;
  const std::function<void(int)> again = [&](int more) {
    const instant when = clock_.now() + instant{static_cast<std::int64_t>(random() % 50)};
    asked.emplace_back(when, number);
    clock_.at(when, [&, more, n = number++] {
      order.push_back(n);
      for (int i = 0; more > 0 && i < 2; ++i) again(more - 1);
    });
  };
  for (int i = 0; i < 40; ++i) again(6);
  while (clock_.next()) continue;
  std::ranges::sort(asked); // by moment, and by the order of asking
  ASSERT_EQ(order.size(), asked.size());
  for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], asked[i].second) << i;
}

TEST_F(VirtualClock, ForeseesTheEventsOfOwners) {
  std::vector<std::pair<virtual_clock::owner, std::size_t>> foreseen; // and how many events had passed
  clock_.foresee([&](virtual_clock::owner whose, virtual_clock::foresight) {
    foreseen.emplace_back(whose, told_.size());
  });
  for (int i = 0; i < 20; ++i) clock_.at(seconds{i}, static_cast<virtual_clock::owner>(i), noted(i));
  clock_.at(seconds{30}, noted(30));
  while (clock_.next()) continue;
  std::map<virtual_clock::owner, std::vector<std::size_t>> before; // how many events were before it
  for (const auto& [whose, passed] : foreseen) before[whose].push_back(whose - passed);
  EXPECT_THAT(before[12], ElementsAre(8, 5, 2));
  EXPECT_THAT(before[19], ElementsAre(8, 5, 2));
  EXPECT_THAT(before[3], ElementsAre(2)) << "it was among the first";
  EXPECT_EQ(before.count(30), 0U) << "it is nobody's";
}

} // namespace
} // namespace mailgrad::lab
