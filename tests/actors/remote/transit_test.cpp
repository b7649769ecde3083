#include <mailgrad/actors/remote/admission.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace mailgrad::remote {
namespace {

constexpr std::uint64_t mib = 1 << 20;
constexpr rank any{0}; ///< where it does not matter whose it is

TEST(Transit, LetsOneGradientOfAnySizeArrive) {
  const auto t = std::make_shared<transit>(1000 * mib, 1000 * mib);
  EXPECT_TRUE(t->has_room(any));
  const auto room = t->arriving(any, 1000 * mib);
  EXPECT_FALSE(t->has_room(any));
}

TEST(Transit, HasRoomForAsMuchHoweverManyComeAndGo) {
  const auto t = std::make_shared<transit>(2 * mib, 2 * mib);
  t->leaving(any, std::make_shared<int>(), 2 * mib).reset(); // it reads fast
  std::vector<std::shared_ptr<const void>> gradients, weights;
  while (t->has_room(any)) gradients.push_back(t->arriving(any, 2 * mib));
  EXPECT_EQ(gradients.size(), 9U) << "2 + 16 MiB";
  gradients.clear();
  while (t->has_room(any)) weights.push_back(t->leaving(any, std::make_shared<int>(), 2 * mib));
  EXPECT_EQ(weights.size(), 14U) << "2 * 2 + 24 MiB";
  EXPECT_EQ(t->leaving_bytes(), 28 * mib);
}

TEST(Transit, CountsWeightsThatLeaveToManyOnce) {
  const auto t = std::make_shared<transit>(2 * mib, 2 * mib);
  const auto version = std::make_shared<int>();
  auto to_first = t->leaving({0}, version, 2 * mib);
  auto to_second = t->leaving({1}, version, 2 * mib);
  EXPECT_EQ(t->leaving_bytes(), 2 * mib);
  to_first.reset();
  EXPECT_EQ(t->leaving_bytes(), 2 * mib);
  to_second.reset();
  EXPECT_EQ(t->leaving_bytes(), 0U);
  EXPECT_EQ(version.use_count(), 1) << "it holds nothing that has left";
}

TEST(Transit, CallsWhoFoundNoRoomWhenThereIsSome) {
  const auto t = std::make_shared<transit>(2 * mib, 2 * mib);
  int calls = 0;
  t->when_room([&] { ++calls; });
  std::vector<std::shared_ptr<const void>> gradients;
  while (gradients.size() < 9) gradients.push_back(t->arriving(any, 2 * mib));
  gradients.pop_back();
  EXPECT_EQ(calls, 0) << "nobody has asked";
  gradients.push_back(t->arriving(any, 2 * mib));
  EXPECT_FALSE(t->has_room(any));
  gradients.pop_back();
  gradients.pop_back();
  EXPECT_EQ(calls, 1) << "once, until somebody asks again";
  EXPECT_TRUE(t->has_any_room());
  gradients.resize(9);
  for (auto& g : gradients) g = t->arriving(any, 2 * mib);
  EXPECT_FALSE(t->has_any_room());
  gradients.pop_back();
  EXPECT_EQ(calls, 2) << "to be told that nobody has room is to ask, too";
  gradients.push_back(t->arriving(any, 2 * mib));
  EXPECT_FALSE(t->has_room(any));
  t->when_room({});
  gradients.clear();
  EXPECT_EQ(calls, 2);
}

/// A process with shards, to which workers 0 to 2 send gradients as fast as they are answered, and others
/// that take no weights.
struct SlowReaders : ::testing::Test {
  /// The worker exchanges a gradient for weights, and takes them at once. False if there is no room for it.
  bool exchange(rank worker) {
    if (!t->has_room(worker)) return false;
    t->arriving(worker, 2 * mib).reset();
    t->leaving(worker, std::make_shared<int>(), 2 * mib).reset();
    return true;
  }
  /// The same, but the weights stay on their way.
  bool begin(rank worker) {
    if (!t->has_room(worker)) return false;
    t->arriving(worker, 2 * mib).reset();
    under_way[worker.value] = t->leaving(worker, std::make_shared<int>(), 2 * mib);
    return true;
  }
  void go_on(int rounds) {
    for (int i = 0; i < rounds; ++i)
      for (std::uint32_t r = 0; r < fast; ++r) ASSERT_TRUE(exchange({r})) << r;
  }

  static constexpr std::uint32_t fast = 3, slow = 20;
  std::shared_ptr<transit> t = std::make_shared<transit>(2 * mib, 2 * mib);
  std::vector<std::shared_ptr<const void>> under_way{fast + slow};
};

/// The room of 28 MiB would have 14 versions of 2 MiB.
TEST_F(SlowReaders, HaveHalfOfTheRoomAndHoldUpNobodyElse) {
  const auto first = std::make_shared<int>();
  for (std::uint32_t r = 0; r < fast + slow; ++r) under_way[r] = t->leaving({r}, first, 2 * mib);
  for (std::uint32_t r = 0; r < fast; ++r) under_way[r].reset();
  go_on(40); // so that the first weights of the others are overtaken by 120
  for (std::uint32_t r = fast; r < fast + slow; ++r) under_way[r].reset();
  std::uint32_t begun = 0;
  for (std::uint32_t r = fast; r < fast + slow; ++r) begun += begin({r}) ? 1 : 0;
  EXPECT_EQ(begun, 7U);
  go_on(40);
  EXPECT_EQ(t->who_fills_it({fast + slow - 1}), "workers 3, 4, 5, 6, 7, 8, 9 to take weights");
  int calls = 0;
  t->when_room([&] { ++calls; });
  EXPECT_FALSE(t->has_room({fast + slow - 1}));
  under_way[fast].reset();
  EXPECT_GT(calls, 0);
  EXPECT_TRUE(t->has_room({fast + slow - 1})) << "one has taken its weights, so there is room for another";
}

/// Each gets the version that is the newest when it joins, which waits for no room.
TEST_F(SlowReaders, HoldUpNobodyWhenTheyJoinLate) {
  for (std::uint32_t r = 0; r < fast; ++r) t->leaving({r}, std::make_shared<int>(), 2 * mib).reset();
  for (std::uint32_t r = fast; r < fast + slow; ++r)
    under_way[r] = t->leaving({r}, std::make_shared<int>(), 2 * mib);
  ASSERT_GT(t->leaving_bytes(), 28 * mib) << "which is all the room";
  go_on(10);
  std::vector<std::shared_ptr<const void>> gradients;
  while (t->has_room({0})) gradients.push_back(t->arriving({0}, 2 * mib));
  EXPECT_EQ(gradients.size(), 7U) << "half of the room";
  int calls = 0;
  t->when_room([&] { ++calls; });
  EXPECT_FALSE(t->has_room({0}));
  gradients.pop_back();
  EXPECT_EQ(calls, 1);
}

/// Nine are slow, and seven of them fill their half of the room.
TEST_F(SlowReaders, AreFastAgainWhenTheyAre) {
  const auto first = std::make_shared<int>();
  for (std::uint32_t r = 0; r < 12; ++r) under_way[r] = t->leaving({r}, first, 2 * mib);
  for (std::uint32_t r = 0; r < fast; ++r) under_way[r].reset();
  go_on(40);
  for (std::uint32_t r = fast; r < 12; ++r) under_way[r].reset();
  ASSERT_TRUE(begin({3}));
  go_on(1);
  under_way[3].reset(); // overtaken by three answers
  for (std::uint32_t r = 4; r < 11; ++r) ASSERT_TRUE(begin({r})) << r;
  EXPECT_TRUE(begin({3}));
  EXPECT_FALSE(begin({11}));
}

/// Each was fast when its weights began to leave, and holds them now.
TEST_F(SlowReaders, FillABoundedRoomHoweverManyStall) {
  constexpr std::uint32_t many = 60;
  under_way.resize(many);
  for (std::uint32_t r = 0; r < many; ++r) t->leaving({r}, std::make_shared<int>(), 2 * mib).reset();
  for (std::uint32_t r = fast; r < many; ++r) {
    if (!begin({r})) break;
    for (std::uint32_t i = 0; i < many; ++i)
      for (std::uint32_t f = 0; f < fast && t->has_room({f}); ++f)
        t->leaving({f}, std::make_shared<int>(), 2 * mib).reset();
  }
  EXPECT_LE(t->leaving_bytes(), 42 * mib) << "28 MiB, and half as much again";
  EXPECT_GT(t->leaving_bytes(), 28 * mib);
}

TEST(Transit, LetsOneSlowReaderInHoweverLargeTheWeights) {
  const auto t = std::make_shared<transit>(1000 * mib, 1000 * mib);
  auto slow = t->leaving({0}, std::make_shared<int>(), 1000 * mib);
  for (int i = 0; i < 10; ++i) t->leaving({1}, std::make_shared<int>(), 1000 * mib).reset();
  slow.reset();
  EXPECT_TRUE(t->has_room({0}));
  slow = t->leaving({0}, std::make_shared<int>(), 1000 * mib);
  EXPECT_TRUE(t->has_room({1})) << "the other goes on meanwhile";
}

TEST(Transit, NamesWhoFillsIt) {
  const auto t = std::make_shared<transit>(2 * mib, 2 * mib);
  EXPECT_EQ(t->who_fills_it({9}), "");
  std::vector<std::shared_ptr<const void>> held;
  for (std::uint32_t r = 0; r < 10; ++r) held.push_back(t->leaving({r}, std::make_shared<int>(), mib));
  EXPECT_EQ(t->who_fills_it({11}), "workers 0, 1, 2, 3, 4, 5, 6, 7 and 2 more to take weights");
  held.resize(1);
  held.push_back(t->arriving({3}, 2 * mib));
  EXPECT_EQ(t->who_fills_it({11}),
            "the shards to read gradients of worker 3, and for worker 0 to take weights");
}

} // namespace
} // namespace mailgrad::remote
