#include <mailgrad/actors/scheduler/wakeful_sharing.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace mailgrad {
namespace {

using std::chrono_literals::operator""ms;

TEST(WakefulQueue, ServesWhoComesFirst) {
  wakeful_queue<int> q(1ms);
  for (int i = 0; i < 5; ++i) q.push(i);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(q.pop(), i);
}

TEST(WakefulQueue, HandsOverWhatThereIs) {
  wakeful_queue<int> q(1ms);
  std::vector<int> seen;
  q.drain([&](int x) { seen.push_back(x); });
  EXPECT_TRUE(seen.empty());
  for (int i = 0; i < 3; ++i) q.push(i);
  q.drain([&](int x) { seen.push_back(x); });
  EXPECT_THAT(seen, ::testing::ElementsAre(0, 1, 2));
  q.push(3);
  EXPECT_EQ(q.pop(), 3);
}

class WakefulQueues : public ::testing::TestWithParam<std::chrono::milliseconds> {};

/// Each item is memory that the one who pushes writes and the one who pops reads.
TEST_P(WakefulQueues, GivesEachItemToOneThread) {
  constexpr int items = 2000;
  wakeful_queue<int*> q(GetParam());
  std::atomic<int> popped = 0;
  const auto consume = [&] {
    while (int* const x = q.pop()) {
      ++*x;
      ++popped;
    }
    q.push(nullptr); // for the next
  };
  std::vector<int> values(2 * items, 0);
  {
    const std::jthread first(consume), second(consume);
    {
      const auto produce = [&](int begin) {
        for (int i = begin; i < begin + items; ++i) {
          values[static_cast<std::size_t>(i)] = 1;
          q.push(&values[static_cast<std::size_t>(i)]);
          if (i % 16 == 0) std::this_thread::yield();
        }
      };
      const std::jthread one([&] { produce(0); }), other([&] { produce(items); });
    }
    q.push(nullptr);
  }
  EXPECT_EQ(popped, 2 * items);
  EXPECT_THAT(values, ::testing::Each(2));
}

INSTANTIATE_TEST_SUITE_P(AwakeAndAsleep, WakefulQueues, ::testing::Values(0ms, 1ms, 1000ms));

} // namespace
} // namespace mailgrad
