#include <mailgrad/tests/optim/joined_policy.hpp>

#include <mailgrad/files/archive.hpp>

#include <gtest/gtest.h>

#include <optional>

namespace mailgrad {
namespace {

using testing::joined;

gradient_stamp at_moment(std::uint32_t worker, std::int64_t ns) { return {{worker}, 1, 0, 0, ns}; }

TEST(QuorumPolicy, WaitsForAsLongAsItsGraceWhenTheQuorumIsThere) {
  const auto p = joined("quorum:2,grace=0.5", 4);
  p->judge(at_moment(3, 100));
  EXPECT_EQ(p->closes_at(), std::nullopt);
  EXPECT_FALSE(p->may_start({3})) << "it waits for the update";
  p->judge(at_moment(1, 200));
  EXPECT_EQ(p->closes_at(), 500'000'200);
  p->judge(at_moment(0, 300));
  EXPECT_EQ(p->closes_at(), 500'000'200) << "who comes meanwhile makes it no longer";
  EXPECT_FALSE(p->batch_complete());
  p->close();
  EXPECT_TRUE(p->batch_complete());
  EXPECT_EQ(p->closes_at(), std::nullopt);
  p->batch_applied();
  EXPECT_FALSE(p->batch_complete());
  for (std::uint32_t r = 0; r < 4; ++r) EXPECT_TRUE(p->may_start({r}));
  p->close();
  p->judge(at_moment(2, 600'000'000));
  EXPECT_FALSE(p->batch_complete()) << "a window that is not open cannot be closed";
}

TEST(QuorumPolicy, WaitsNoLongerWhenEverybodyIsThere) {
  const auto p = joined("quorum:1,grace=9", 2);
  p->judge(at_moment(0, 1));
  EXPECT_FALSE(p->batch_complete());
  p->judge(at_moment(1, 2));
  EXPECT_TRUE(p->batch_complete());
}

TEST(QuorumPolicy, HasNoWindowWithoutGrace) {
  for (const char* text : {"quorum:2", "quorum:2,grace=0"}) {
    const auto p = joined(text, 3);
    p->judge(at_moment(0, 1));
    EXPECT_FALSE(p->batch_complete());
    p->judge(at_moment(1, 2));
    EXPECT_TRUE(p->batch_complete());
    EXPECT_EQ(p->closes_at(), std::nullopt);
  }
}

TEST(QuorumPolicy, MakesDoWithThoseWhoAreLeft) {
  const auto p = joined("quorum:3,grace=1", 4);
  p->judge(at_moment(0, 10));
  p->judge(at_moment(1, 20));
  p->leave({2});
  EXPECT_EQ(p->closes_at(), std::nullopt) << "three are left, and one of them may still come";
  p->leave({3});
  EXPECT_TRUE(p->batch_complete()) << "nobody is left to wait for";
}

TEST(QuorumPolicy, OpensItsWindowWhenWhoIsLeftIsEnough) {
  const auto p = joined("quorum:3,grace=1", 5);
  p->judge(at_moment(0, 10));
  p->judge(at_moment(1, 20));
  for (const std::uint32_t gone : {2U, 3U}) p->leave({gone});
  p->leave({0});
  EXPECT_EQ(p->closes_at(), std::nullopt) << "one is left, and the two gradients stay";
  p->judge(at_moment(4, 30));
  EXPECT_TRUE(p->batch_complete());
}

TEST(QuorumPolicy, CountsWhoJoins) {
  const auto p = joined("quorum:2,grace=1", 2);
  p->join({2});
  p->judge(at_moment(0, 1));
  p->judge(at_moment(1, 2));
  EXPECT_FALSE(p->batch_complete()) << "the third may still come";
  EXPECT_EQ(p->closes_at(), 1'000'000'002);
  p->judge(at_moment(2, 3));
  EXPECT_TRUE(p->batch_complete());
}

TEST(QuorumPolicy, EndsAWindowThatACheckpointKept) {
  const auto p = joined("quorum:1,grace=5", 3);
  p->judge(at_moment(2, 100));
  saved_fields written;
  written.field("policy", *p);
  saved_fields read(written.text(), written.arrays());
  const auto other = joined("quorum:1,grace=5", 3);
  read.field("policy", *other);
  EXPECT_EQ(other->closes_at(), 0) << "its moment was of another clock";
  EXPECT_FALSE(other->may_start({2}));
  other->close();
  EXPECT_TRUE(other->batch_complete());
}

} // namespace
} // namespace mailgrad
