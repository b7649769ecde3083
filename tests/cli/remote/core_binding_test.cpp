#include <mailgrad/cli/remote/launch_args.hpp>

#include <gmock/gmock.h>

#include <string>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

TEST(CoreBinding, SaysHowTheLauncherDoesNotBind) {
  const core_binding one_of_two{.bound = 1, .of = 2};
  EXPECT_TRUE(one_of_two.narrow());
  EXPECT_THAT(one_of_two.in_words("mpirun"), HasSubstr("1 of 2 cores"));
  EXPECT_THAT(one_of_two.in_words("mpirun"), HasSubstr("'--bind-to none'"));
  EXPECT_THAT(one_of_two.in_words("srun"), HasSubstr("--cpu-bind=none"));
  EXPECT_FALSE((core_binding{.bound = 2, .of = 2}).narrow());
}

} // namespace
} // namespace mailgrad
