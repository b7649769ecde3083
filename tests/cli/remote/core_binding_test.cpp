#include <mailgrad/cli/remote/core_binding.hpp>

#include <gmock/gmock.h>

#include <sched.h>

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

TEST(CoreBinding, OfThisProcessIsWhatTheSystemHasSet) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(binding_of_process().bound, static_cast<std::size_t>(CPU_COUNT(&before)));
  std::size_t first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(binding_of_process().bound, 1U);
  sched_setaffinity(0, sizeof before, &before);
}

} // namespace
} // namespace mailgrad
