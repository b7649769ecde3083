#include <mailgrad/optim/row_sum.hpp>

#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct gradient_rows {
  std::vector<std::int32_t> rows;
  std::vector<float> values;
};

/// Of a table of 10 rows of 2, those from 4 to 7.
sparse_update on_shard(const gradient_rows& g, std::vector<float>& weights) {
  weights.assign(8, 0);
  return {.weights = weights, .width = 2, .rows = g.rows, .values = g.values, .row_begin = 4, .row_end = 8};
}

TEST(RowSum, PicksTheRowsOfItsShardAndCountsThemFromItsBegin) {
  const gradient_rows g{{9, 4, 3, 7}, {1, 2, 3, 4, 5, 6, 7, 8}};
  std::vector<float> w;
  row_sum sum;
  const row_list all = sum.as_they_come(on_shard(g, w));
  EXPECT_THAT(all.rows, ElementsAre(0, 3));
  EXPECT_THAT(all.values, ElementsAre(3, 4, 7, 8));
}

TEST(RowSum, TakesAShardThatHasNoRowOfTheTable) {
  const gradient_rows g{{5, 6}, {1, 2, 3, 4}};
  row_sum sum;
  const sparse_update nothing{.width = 2, .rows = g.rows, .values = g.values, .row_begin = 5, .row_end = 5};
  EXPECT_THAT(sum.as_they_come(nothing).rows, IsEmpty());
  EXPECT_THAT(sum.distinct(nothing).rows, IsEmpty());
}

TEST(RowSum, AddsRowsThatRepeat) {
  const gradient_rows g{{5, 6, 5, 5}, {1, 2, 3, 4, 10, 20, 100, 200}};
  std::vector<float> w;
  row_sum sum;
  for (int again = 0; again < 2; ++again) {
    const row_list distinct = sum.distinct(on_shard(g, w));
    EXPECT_THAT(distinct.rows, ElementsAre(1, 2));
    EXPECT_THAT(distinct.values, ElementsAre(111, 222, 3, 4));
  }
  EXPECT_THAT(sum.as_they_come(on_shard(g, w)).rows, ElementsAre(1, 2, 1, 1));
}

TEST(RowSum, EndsAtANegativeRow) {
  const gradient_rows g{{5, -1, 6}, {1, 2, 3, 4, 5, 6}};
  std::vector<float> w;
  row_sum sum;
  EXPECT_THAT(sum.as_they_come(on_shard(g, w)).rows, ElementsAre(1));
  EXPECT_THAT(sum.distinct(on_shard(g, w)).rows, ElementsAre(1));
  EXPECT_THAT(sum.distinct(on_shard({{}, {}}, w)).rows, IsEmpty());
}

TEST(RowSum, RefusesShapesThatDoNotFit) {
  const gradient_rows short_of_values{{5, 6}, {1, 2, 3}};
  const gradient_rows fitting{{5}, {1, 2}};
  std::vector<float> w;
  row_sum sum;
  EXPECT_THROW(sum.distinct(on_shard(short_of_values, w)), shape_error);
  EXPECT_THROW(sum.as_they_come(on_shard(short_of_values, w)), shape_error);
  sparse_update taller = on_shard(fitting, w);
  taller.row_end = 9;
  EXPECT_THROW(sum.distinct(taller), shape_error);
  sparse_update reversed = on_shard(fitting, w);
  reversed.row_end = 3;
  EXPECT_THROW(sum.distinct(reversed), shape_error);
}

} // namespace
} // namespace mailgrad
