#include <mailgrad/actors/remote/transit.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace mailgrad::remote {
namespace {

constexpr std::uint64_t mib = 1 << 20;

TEST(Transit, LetsOneGradientOfAnySizeArrive) {
  const auto t = std::make_shared<transit>(1000 * mib, 1000 * mib);
  EXPECT_TRUE(t->has_room());
  const auto room = t->arriving(1000 * mib);
  EXPECT_FALSE(t->has_room());
}

TEST(Transit, HasRoomForAsMuchHoweverManyComeAndGo) {
  const auto t = std::make_shared<transit>(2 * mib, 2 * mib);
  std::vector<std::shared_ptr<const void>> gradients, weights;
  while (t->has_room()) gradients.push_back(t->arriving(2 * mib));
  EXPECT_EQ(gradients.size(), 9U) << "2 + 16 MiB";
  gradients.clear();
  while (t->has_room()) weights.push_back(t->leaving(std::make_shared<int>(), 2 * mib));
  EXPECT_EQ(weights.size(), 14U) << "2 * 2 + 24 MiB";
  EXPECT_EQ(t->leaving_bytes(), 28 * mib);
}

TEST(Transit, CountsWeightsThatLeaveToManyOnce) {
  const auto t = std::make_shared<transit>(2 * mib, 2 * mib);
  const auto version = std::make_shared<int>();
  auto to_first = t->leaving(version, 2 * mib);
  auto to_second = t->leaving(version, 2 * mib);
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
  while (gradients.size() < 9) gradients.push_back(t->arriving(2 * mib));
  gradients.pop_back();
  EXPECT_EQ(calls, 0) << "nobody has asked";
  gradients.push_back(t->arriving(2 * mib));
  EXPECT_FALSE(t->has_room());
  gradients.pop_back();
  gradients.pop_back();
  EXPECT_EQ(calls, 1) << "once, until somebody asks again";
  gradients.resize(9);
  for (auto& g : gradients) g = t->arriving(2 * mib);
  EXPECT_FALSE(t->has_room());
  t->when_room({});
  gradients.clear();
  EXPECT_EQ(calls, 1);
}

} // namespace
} // namespace mailgrad::remote
