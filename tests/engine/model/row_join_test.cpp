#include <mailgrad/tests/engine/layouts.hpp>

#include <mailgrad/engine/model/gradient.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using testing::add_rows;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RowJoin : public ::testing::Test {
protected:
  /// Two lists of table 1 and one of table 2.
  static gradient three_lists() {
    gradient g;
    add_rows(g, 1, 2, {4, 0, -1, 9}, {1, 2, 3, 4, 5, 6, 7, 8});
    add_rows(g, 2, 1, {7}, {20});
    add_rows(g, 1, 2, {4}, {10, 11});
    return g;
  }
  row_join join_;
};

TEST_F(RowJoin, LeavesAListThatComesAloneWhereItLies) {
  const gradient g = three_lists();
  join_.begin(2);
  join_.add(g, 1);
  EXPECT_EQ(join_.rows().data(), g.sparse[1].rows.data());
  EXPECT_EQ(join_.values().data(), g.sparse[1].values.data());
}

TEST_F(RowJoin, PutsTheListsOfATableOneAfterTheOther) {
  const gradient g = three_lists();
  join_.begin(1);
  join_.add(g, 1);
  EXPECT_THAT(join_.rows(), ElementsAre(4, 0, 4)) << "a negative row ends its list";
  EXPECT_THAT(join_.values(), ElementsAre(1, 2, 3, 4, 10, 11));
}

TEST_F(RowJoin, ScalesEachGradientByItsOwnFactor) {
  const gradient g = three_lists();
  join_.begin(2);
  join_.add(g, 1);
  join_.add(g, 0.5F);
  join_.add(g, 1);
  EXPECT_THAT(join_.rows(), ElementsAre(7, 7, 7));
  EXPECT_THAT(join_.values(), ElementsAre(20, 10, 20));
  join_.begin(2);
  join_.add(g, 0.25F);
  EXPECT_THAT(join_.values(), ElementsAre(5)) << "one list that does not count as it is";
}

TEST_F(RowJoin, IsEmptyForATableThatNobodyLists) {
  join_.begin(1);
  join_.add(three_lists(), 0.5F);
  join_.begin(0);
  join_.add(three_lists(), 1);
  EXPECT_THAT(join_.rows(), IsEmpty());
  EXPECT_THAT(join_.values(), IsEmpty());
}

} // namespace
} // namespace mailgrad
