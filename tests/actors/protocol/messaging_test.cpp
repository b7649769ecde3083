#include <mailgrad/actors/protocol/messaging.hpp>

#include <gtest/gtest.h>

#include <array>

namespace mailgrad {
namespace {

TEST(Listed, NamesAllBehindOneNoun) {
  EXPECT_EQ(listed("worker", {}), "");
  EXPECT_EQ(listed("worker", std::array{3U}), "worker 3");
  EXPECT_EQ(listed("shard", std::array{0U, 2U, 5U}), "shards 0, 2, 5");
}

} // namespace
} // namespace mailgrad
