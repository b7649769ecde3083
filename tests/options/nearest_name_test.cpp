#include <mailgrad/options/spelling.hpp>

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

TEST(NearestName, IsSuggestedWhereItIsNear) {
  constexpr std::array<std::string_view, 3> names{"sgd", "momentum", "adam"};
  EXPECT_EQ(suggestion("adma", names), "did you mean 'adam'?");
  EXPECT_EQ(suggestion("dama", names), "did you mean 'adam'?");
  EXPECT_EQ(suggestion("sdg", names), "did you mean 'sgd'?");
  EXPECT_EQ(suggestion("moment", names), "did you mean 'momentum'?");
  EXPECT_EQ(suggestion("lamb", names), "known are: sgd, momentum, adam");
  EXPECT_EQ(suggestion("xyz", names), "known are: sgd, momentum, adam");
  EXPECT_EQ(suggestion("conjugate-gradient", names), "known are: sgd, momentum, adam");
  EXPECT_EQ(suggestion("", names), "known are: sgd, momentum, adam");
  EXPECT_EQ(suggestion("adam", {}), "");
}

TEST(NearestName, IsNearByAThirdOfTheWord) {
  EXPECT_TRUE(is_near("abc", 1));
  EXPECT_FALSE(is_near("abc", 2));
  EXPECT_TRUE(is_near("abcd", 2));
  EXPECT_FALSE(is_near("abcdefgh", 3));
  EXPECT_TRUE(is_near("abcdefghi", 3));
  EXPECT_FALSE(is_near("abcdefghi", 4));
}

TEST(NearestName, IsEmptyWhereThereAreNoNames) { EXPECT_EQ(nearest_name("adam", {}), ""); }

TEST(NearestName, IsMeantByAWordThatBeginsItOrThatItBegins) {
  constexpr std::array<std::string_view, 4> names{"batch", "lr", "optimizer", "outer-optimizer"};
  EXPECT_EQ(meant_name("batchsize", names), "batch");
  EXPECT_EQ(meant_name("lrate", names), "lr");
  EXPECT_EQ(meant_name("opt", names), "optimizer");
  EXPECT_EQ(meant_name("op", names), "") << "two letters say too little";
  EXPECT_EQ(meant_name("quantum", names), "");
  EXPECT_EQ(meant_name("batch", {}), "");
}

} // namespace
} // namespace mailgrad
