#include <mailgrad/engine/checkpoint/kept_run.hpp>

#include <mailgrad/tests/support/refusal.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mailgrad {
namespace {

checkpoint kept(const hogwild_store& block, block_weights which) {
  return checkpoint::of({{block_part, keep_block(block, which)}}, "kept");
}

TEST(KeptBlock, HasItsWeightsAndCountsAgain) {
  hogwild_store block(std::vector<float>{1, 2, 3});
  block.advance();
  const checkpoint from = kept(block, block_weights::all);
  block.add(0, 100); // behind the cut
  hogwild_store again(std::vector<float>(3));
  restore_block(from, again, block_weights::all, 1);
  EXPECT_EQ(again.version(), 1U);
  EXPECT_EQ(again.before(), 0U);
  EXPECT_EQ(again.load(0), 1);
  EXPECT_EQ(again.load(2), 3);
}

/// Only schedules count what workers wrote that do not go on.
TEST(KeptBlock, CountsApartWhatOtherWorkersWrote) {
  hogwild_store block(std::vector<float>{1, 2, 3});
  block.go_on_from(5, 7);
  block.advance();
  hogwild_store again(std::vector<float>(3));
  restore_block(kept(block, block_weights::all), again, block_weights::all, 4);
  EXPECT_EQ(again.version(), 4U);
  EXPECT_EQ(again.before(), 9U);
  EXPECT_EQ(again.updates(), block.updates());
}

TEST(KeptBlock, LeavesTheWeightsToTheShards) {
  hogwild_store block(std::vector<float>{1, 2, 3});
  hogwild_store again(std::vector<float>{7, 8, 9});
  restore_block(kept(block, block_weights::in_shards), again, block_weights::in_shards, 0);
  EXPECT_EQ(again.load(1), 8);
}

TEST(KeptBlock, IsRefusedIfItDoesNotFit) {
  const hogwild_store block(std::vector<float>{1, 2, 3});
  hogwild_store longer(std::vector<float>(4));
  EXPECT_EQ(testing::words_of_refusal(
                [&] { restore_block(kept(block, block_weights::all), longer, block_weights::all, 0); }),
            "block/weights: expected 4 floats, found 3");
  hogwild_store again(std::vector<float>(3));
  EXPECT_EQ(testing::words_of_refusal(
                [&] { restore_block(kept(block, block_weights::all), again, block_weights::all, 1); }),
            "block: its workers made 1 updates, and it counts 0");
  EXPECT_NE(testing::words_of_refusal(
                [&] { restore_block(kept(block, block_weights::in_shards), again, block_weights::all, 0); }),
            "");
}

} // namespace
} // namespace mailgrad
