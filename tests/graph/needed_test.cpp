#include <mailgrad/graph/graph.hpp>

#include <mailgrad/graph/operations.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace mailgrad {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class Needed : public ::testing::Test {
protected:
  graph g_;
  const value x_ = g_.input("x", {2});
  const value w_ = g_.variable("w", {2}, initialiser::zeros());
  const value left_ = relu(x_);
  const value right_ = x_ * w_;
  const value sum_ = left_ + right_;
};

TEST_F(Needed, IsAllThatIsReadOnTheWay) {
  EXPECT_THAT(needed_for(g_, std::array{sum_}), Each(1));
  EXPECT_THAT(needed_for(g_, std::array{left_}), ElementsAre(1, 0, 1, 0, 0));
  EXPECT_THAT(needed_for(g_, std::array{left_, right_}), ElementsAre(1, 1, 1, 1, 0));
}

TEST_F(Needed, IsNothingForNothing) { EXPECT_THAT(needed_for(g_, {}), Each(0)); }

TEST_F(Needed, EndsAtWhatIsGiven) {
  EXPECT_THAT(needed_for(g_, std::array{sum_}, std::array{right_}), ElementsAre(1, 0, 1, 0, 1));
  EXPECT_THAT(needed_for(g_, std::array{sum_}, std::array{sum_}), Each(0));
}

} // namespace
} // namespace mailgrad
