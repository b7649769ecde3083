#include <mailgrad/engine/account/training_report.hpp>

#include <gmock/gmock.h>

#include <unistd.h>

namespace mailgrad {
namespace {

using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

TEST(Provenance, NamesTheBuildAndTheMachine) {
  const provenance p = this_program();
  EXPECT_THAT(p.version, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(p.compiler, MatchesRegex("(GNU|Clang) [0-9]+\\.[0-9]+\\.[0-9]+"));
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof host), 0);
  EXPECT_EQ(p.host, host);
  EXPECT_THAT(p.processor, Not(IsEmpty()));
  EXPECT_FALSE(p.processor.starts_with(' '));
}

/// Otherwise two runs of one program could not be compared byte for byte.
TEST(Provenance, LeavesDateAndCommitToTheProgram) {
  EXPECT_THAT(this_program().date, IsEmpty());
  EXPECT_THAT(this_program().commit, IsEmpty());
}

} // namespace
} // namespace mailgrad
