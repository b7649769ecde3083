#include <mailgrad/cli/option_checks.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;

TEST(OptionWords, KnowAnOptionByItsWholeName) {
  const option_words words({"--keep-weights=best", "--quiet"});
  EXPECT_TRUE(words.has("--quiet"));
  EXPECT_TRUE(words.has("--keep-weights"));
  EXPECT_FALSE(words.has("--keep"));
  EXPECT_FALSE(words.has("--keep-weights=best"));
}

TEST(OptionWords, HaveOneWordOfEachOption) {
  option_words words({"--steps=1", "--quiet", "--steps=2"});
  words.set("--steps=3");
  EXPECT_THAT(words.all(), ElementsAre("--quiet", "--steps=3"));
  words.set(option_words({"--quiet", "--steps=4", "--data=x=y"}));
  EXPECT_THAT(words.all(), ElementsAre("--quiet", "--steps=4", "--data=x=y"));
  words.set("--data=z");
  EXPECT_THAT(words.take(), ElementsAre("--quiet", "--steps=4", "--data=z"));
}

TEST(OptionWords, DropWhatIsNotKept) {
  option_words words({"--steps=1", "--step=2", "--data=x", "--quiet"});
  words.drop("--step");
  words.drop({"--quiet", "--absent"});
  EXPECT_THAT(words.all(), ElementsAre("--steps=1", "--data=x"));
  words.drop_unless(option_words({"--data=other"}), {"--data", "--steps"});
  EXPECT_THAT(words.all(), ElementsAre("--data=x"));
}

} // namespace
} // namespace mailgrad
