#include <mailgrad/options/spelling.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NamedChoice, HasANameAndItsArguments) {
  const named_choice c("dssp:1,4");
  EXPECT_EQ(c.text, "dssp:1,4");
  EXPECT_EQ(c.name, "dssp");
  EXPECT_THAT(c.arguments, ElementsAre("1", "4"));
}

TEST(NamedChoice, HasNoArgumentWithoutAColon) {
  EXPECT_EQ(named_choice("sync").name, "sync");
  EXPECT_THAT(named_choice("sync").arguments, IsEmpty());
  EXPECT_EQ(named_choice("").name, "");
}

TEST(NamedChoice, KeepsEmptyArgumentsForItsReaderToRefuse) {
  EXPECT_THAT(named_choice("ssp:").arguments, ElementsAre(""));
  EXPECT_THAT(named_choice("dssp:1,").arguments, ElementsAre("1", ""));
  EXPECT_THAT(named_choice("dssp:,4").arguments, ElementsAre("", "4"));
}

TEST(NamedChoice, TakesOnlyTheFirstColonForItsOwn) {
  const named_choice c("./lib.so:a:b");
  EXPECT_EQ(c.name, "./lib.so");
  EXPECT_THAT(c.arguments, ElementsAre("a:b"));
}

} // namespace
} // namespace mailgrad
