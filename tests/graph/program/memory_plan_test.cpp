#include <mailgrad/graph/program/program_plan.hpp>

#include <gmock/gmock.h>
#include <random>

namespace mailgrad {
namespace {

bool overlap(const lifetime& a, std::size_t at_a, const lifetime& b, std::size_t at_b) {
  const bool in_time = a.first <= b.last && b.first <= a.last;
  return in_time && at_a < at_b + b.bytes && at_b < at_a + a.bytes;
}

TEST(MemoryPlan, OfNothingIsEmpty) { EXPECT_EQ(plan_memory({}).bytes, 0U); }

TEST(MemoryPlan, SharesBytesBetweenValuesThatNeverMeet) {
  const memory_plan plan = plan_memory({{1000, 0, 1}, {1000, 2, 3}, {1000, 4, 5}});
  EXPECT_EQ(plan.bytes, 1024U);
}

TEST(MemoryPlan, TakesTheSmallestGapThatHoldsAValue) {
  // Two long-lived values leave gaps of 1024 and 512 once the others are gone.
  const memory_plan plan =
      plan_memory({{4096, 0, 9}, {2048, 0, 9}, {1024, 0, 4}, {512, 0, 4}, {512, 5, 9}, {1024, 5, 9}});
  EXPECT_EQ(plan.bytes, 4096U + 2048 + 1024 + 512);
}

TEST(MemoryPlan, NeverLetsLiveValuesOverlap) {
  std::mt19937 draw(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<lifetime> all(40);
    std::size_t sum = 0;
    for (lifetime& l : all) {
      const std::size_t first = draw() % 30;
      l = {draw() % 2000, first, first + draw() % 10};
      sum += (l.bytes + 63) / 64 * 64;
    }
    const memory_plan plan = plan_memory(all);
    EXPECT_LE(plan.bytes, sum);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0U);
      EXPECT_LE(plan.offsets[i] + all[i].bytes, plan.bytes);
      for (std::size_t j = 0; j < i; ++j)
        EXPECT_FALSE(overlap(all[i], plan.offsets[i], all[j], plan.offsets[j])) << i << " and " << j;
    }
  }
}

} // namespace
} // namespace mailgrad
