#include <mailgrad/tensor/nearest_name.hpp>

#include <gtest/gtest.h>

#include <array>

namespace mailgrad {
namespace {

TEST(EditDistance, CountsLettersThatAreMissingMoreOrWrong) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "adam"), 4U);
  EXPECT_EQ(edit_distance("adam", ""), 4U);
  EXPECT_EQ(edit_distance("adam", "adamw"), 1U);
  EXPECT_EQ(edit_distance("adem", "adam"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(EditDistance, CountsTwoSwappedNeighboursOnce) {
  EXPECT_EQ(edit_distance("adma", "adam"), 1U);
  EXPECT_EQ(edit_distance("dama", "adam"), 2U);
}

TEST(NearestName, IsTheOneFewestEditsAway) {
  constexpr std::array<std::string_view, 4> names{"sgd", "momentum", "adam", "adamw"};
  EXPECT_EQ(nearest_name("adma", names), "adam");
  EXPECT_EQ(nearest_name("momemtun", names), "momentum");
  EXPECT_EQ(nearest_name("adamw", names), "adamw");
  EXPECT_EQ(nearest_name("", names), "sgd");
}

TEST(NearestName, IsTheFirstOfEquals) {
  constexpr std::array<std::string_view, 2> names{"cat", "bat"};
  EXPECT_EQ(nearest_name("rat", names), "cat");
}

TEST(NearestName, IsEmptyWhereThereAreNoNames) { EXPECT_EQ(nearest_name("adam", {}), ""); }

} // namespace
} // namespace mailgrad
