#include <mailgrad/engine/worker/stage_program.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

/// A list with memory of its own.
struct kept_list {
  std::vector<std::int32_t> rows;
  std::vector<float> values;

  stage_rows of(std::size_t variable, std::size_t micro_batch, std::size_t segment, std::size_t width) {
    return {variable, micro_batch, segment, width, rows, values};
  }
};

TEST(StageRows, JoinsByMicroBatchThenBySegmentWhateverTheOrderOfTheStages) {
  kept_list a{{5}, {1}}, b{{6}, {2}}, c{{5}, {3}};
  row_memory memory;
  const auto all = joined({c.of(0, 1, 0, 1), b.of(0, 0, 2, 1), a.of(0, 0, 1, 1)}, memory);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_THAT(all[0].rows, ElementsAre(5, 6, 5)) << "repeats stay, for a rule to see at once";
  EXPECT_THAT(all[0].values, ElementsAre(1, 2, 3));
}

TEST(StageRows, KeepsTablesApart) {
  kept_list a{{1}, {10, 11}}, b{{2}, {20}}, c{{3}, {30, 31}};
  row_memory memory;
  const auto all = joined({a.of(4, 0, 0, 2), b.of(2, 0, 0, 1), c.of(4, 1, 0, 2)}, memory);
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].variable, 2U);
  EXPECT_THAT(all[0].values, ElementsAre(20));
  EXPECT_EQ(all[1].variable, 4U);
  EXPECT_EQ(all[1].width, 2U);
  EXPECT_THAT(all[1].rows, ElementsAre(1, 3));
  EXPECT_THAT(all[1].values, ElementsAre(10, 11, 30, 31));
}

TEST(StageRows, LeavesTheOnlyListOfATableInItsPlace) {
  kept_list a{{1, 2}, {10, 20}};
  row_memory memory;
  const auto all = joined({a.of(0, 0, 0, 1)}, memory);
  EXPECT_EQ(all[0].values.data(), a.values.data());
  EXPECT_EQ(memory.used, 0U);
}

TEST(StageRows, EndsAListAtItsFirstNegativeRow) {
  kept_list a{{1, -1, 9}, {10, 0, 90}}, b{{2, 3, -1}, {20, 30, 0}};
  row_memory memory;
  const auto all = joined({a.of(0, 0, 0, 1), b.of(0, 1, 0, 1)}, memory);
  EXPECT_THAT(all[0].rows, ElementsAre(1, 2, 3));
  EXPECT_THAT(all[0].values, ElementsAre(10, 20, 30));
}

TEST(RowMemory, IsKeptFromStepToStepAndOnlyGrows) {
  row_memory memory;
  const std::byte* const first = memory.take(64);
  memory.used = 0;
  EXPECT_EQ(memory.take(64), first);
  memory.used = 0;
  EXPECT_EQ(memory.take(32), first);
  EXPECT_NE(memory.take(32), first) << "the block is taken";
  memory.used = 0;
  memory.take(1024);
  EXPECT_GE(memory.blocks[0].bytes(), 1024U);
  EXPECT_THAT(memory.blocks, SizeIs(2));
}

TEST(StageRows, CopiesListsOfWideTablesWhole) {
  constexpr std::size_t width = 96;
  kept_list a{{1, 2}, std::vector<float>(2 * width, 1.0F)}, b{{3}, std::vector<float>(width, 2.0F)};
  row_memory memory;
  const auto all = joined({a.of(0, 0, 0, width), b.of(0, 1, 0, width)}, memory);
  ASSERT_THAT(all[0].values, SizeIs(3 * width));
  ASSERT_THAT(memory.blocks, SizeIs(2)) << "the rows and the values";
  EXPECT_GE(memory.blocks[1].bytes(), all[0].values.size_bytes());
  EXPECT_THAT(all[0].values.first(2 * width), Each(1.0F));
  EXPECT_THAT(all[0].values.last(width), Each(2.0F));
}

TEST(StageRows, TakesTheMemoryOfTheLastStepAgain) {
  kept_list a{{1}, {10}}, b{{2}, {20}};
  row_memory memory;
  for (int step = 0; step < 3; ++step) joined({a.of(0, 0, 0, 1), b.of(0, 1, 0, 1)}, memory);
  EXPECT_THAT(memory.blocks, SizeIs(2));
  EXPECT_EQ(memory.used, 2U);
}

} // namespace
} // namespace mailgrad
