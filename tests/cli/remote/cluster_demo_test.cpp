#include <mailgrad/tests/cli/tool.hpp>

#include <gmock/gmock.h>

#include <string>

// The script by which a user sees a cluster on one machine.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::IsEmpty;
using testing::tool;

TEST(ClusterDemo, GoesOnWithoutAKilledWorkerAndTakesANewOne) {
  tool demo({MAILGRAD_TOOL, "--model", "mlp:hidden=5", "--data", MAILGRAD_SMALL_CSV, "--batch", "4"}, nullptr,
            {}, MAILGRAD_CLUSTER_DEMO);
  EXPECT_EQ(demo.code(), 0) << demo.err();
  EXPECT_THAT(demo.out(), AllOf(ContainsRegex("holds shards 0, 1 for workers"),
                                ContainsRegex("lost worker [01] .incarnation 1."),
                                ContainsRegex("worker [01] .incarnation 2. has joined"),
                                ContainsRegex("running after"), ContainsRegex("gradients +[0-9]+ produced")));
  EXPECT_THAT(demo.err(), IsEmpty());
}

} // namespace
} // namespace mailgrad
